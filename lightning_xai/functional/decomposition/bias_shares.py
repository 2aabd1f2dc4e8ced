"""How a bias is shared out among the source tokens whose vectors sum to a state."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

BiasRule = Literal["absdot", "abssim", "norm", "equal", "cls", "token", "none"]


class BiasShares:
    """Hands every bias to the sources, in shares that `rule` finds from the vectors at the place where it enters.

    Biases first go through the layer alone (`enter`), each as a source of its own. Then chunks of sources follow, and
    of them only inner products are kept (`record`), since a share is known when all sources have come by. At the end
    `shares` has, for every target and bias, what fraction of the bias each source gets. So the large tensors never
    wait for a share, and chunks are independent of each other.
    """

    def __init__(self, rule: BiasRule, biases: dict[str, Tensor]) -> None:
        self.rule = rule
        self.biases = {} if rule == "none" else biases
        self.earlier: dict[str, Tensor] = {}  # place -> [R, k, dim] biases that entered before, as they arrive there
        self.products: dict[str, list[Tensor]] = {place: [] for place in self.biases}

    def enter(self, place: str, columns: Tensor) -> Tensor:
        """Returns the columns [R, k, dim] with the place's bias as one more."""
        if place not in self.biases:
            return columns
        self.earlier[place] = columns
        bias = self.biases[place].expand(len(columns), columns.shape[-1])
        return torch.cat([columns, bias.unsqueeze(1)], dim=1)

    def record(self, place: str, vectors: Tensor) -> Tensor:
        """Returns the vectors [R, c, dim] unchanged, after keeping what their shares of the place's bias depend on."""
        if place not in self.biases:
            return vectors
        bias, parts = self.biases[place], []
        if self.rule in ("absdot", "abssim"):
            parts.append((vectors @ bias if bias.dim() == 1 else (vectors * bias.unsqueeze(1)).sum(-1)).unsqueeze(-1))
        if self.rule in ("abssim", "norm"):
            parts += [vectors.square().sum(-1, keepdim=True), vectors @ self.earlier[place].transpose(1, 2)]
        parts = parts or [vectors[..., :1].detach().clone()]  # the number of sources is all that is needed
        self.products[place].append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1))
        return vectors

    @property
    def needs_products_only(self) -> bool:
        """Whether inner products with the bias are all that shares depend on, so that `keep` does for `record`."""
        return self.rule not in ("abssim", "norm")

    def keep(self, place: str, products: Tensor) -> None:
        """Keeps the products [R, c] of vectors with the place's bias, for vectors that are never formed."""
        if place in self.biases:
            self.products[place].append(products.unsqueeze(-1))

    def shares(self) -> Tensor | None:
        """Returns the fraction [R, S, K] of each bias that each source gets, biases in the order of their entry."""
        found: list[Tensor] = []
        for place in self.biases:
            found.append(self._share(place, torch.cat(self.products[place], dim=1), found))
        return torch.stack(found, dim=-1) if found else None

    def _share(self, place: str, products: Tensor, found: list[Tensor]) -> Tensor:
        if self.rule in ("equal", "cls", "token"):
            share = torch.zeros_like(products[..., 0])
            if self.rule == "equal":
                return share + 1 / share.shape[1]
            share[:, 0 if self.rule == "cls" else -1] = 1.0
            return share
        earlier, bias = self.earlier[place], self.biases[place]
        given = torch.stack(found, dim=-1) if found else products.new_zeros(*products.shape[:2], 0)  # [R, S, k]
        weight = torch.ones_like(products[..., 0])
        if self.rule in ("absdot", "abssim"):
            along = (earlier * bias.expand(len(earlier), -1).unsqueeze(1)).sum(-1)  # [R, k]
            weight = (products[..., 0] + (given * along.unsqueeze(1)).sum(-1)).abs()
            products = products[..., 1:]
        if self.rule in ("abssim", "norm"):
            # |x + sum_q w_q b_q|^2 from |x|^2, x . b_q and the products of biases
            between = given @ (earlier @ earlier.transpose(1, 2))
            square = products[..., 0] + (given * (2 * products[..., 1:] + between)).sum(-1)
            length = square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()
            weight = weight / length if self.rule == "abssim" else length
        return weight / weight.sum(dim=1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)


def hand_out(vectors: Tensor, bias: Tensor, rule: BiasRule) -> Tensor:
    """Returns the vectors [R, S, dim] with their shares of one bias, [dim] or [R, dim]."""
    ledger = BiasShares(rule, {"": bias})
    added = ledger.enter("", vectors[:, :0])
    ledger.record("", vectors)
    shares = ledger.shares()
    return vectors if shares is None else vectors + shares @ added
