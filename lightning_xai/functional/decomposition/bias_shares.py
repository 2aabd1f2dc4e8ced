"""The shares of a bias that belong to the source tokens whose vectors sum to a state.

Letters: R target rows, S sources, c sources of one chunk, K biases of a layer.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

BiasRule = Literal["absdot", "abssim", "norm", "equal", "cls", "token", "none"]


class BiasShares:
    """Distributes the biases of a layer among the sources, whose weights depend on their vectors x_j at that place.

    The share of source j in a bias b is w_j / sum_i w_i. The rule gives the weights: |x_j . b| ("absdot"),
    |x_j . b| / |x_j| ("abssim", the cosine without the constant |b|), |x_j| ("norm"), or 1 ("equal"). "cls" gives all
    to the first source, "token" all to the last, "none" nothing to any. The vector x_j includes its shares of all
    biases that entered the layer before.

    Shares are known only when all sources have passed, and vectors of all sources would not fit the memory. So the work
    has three steps:

    1. The biases go through the layer alone; `enter` adds each as one more column.
    2. Chunks of sources go through the layer; `record` keeps the inner products of their vectors, not the vectors.
    3. `shares` computes the shares of all sources from the products.

    Args:
        rule: how the weights are found.
        biases: the bias [dim], or [R, dim] with one for each target, by the place where it enters, in order of entry.

    Example:
        >>> bias = torch.tensor([2.0, 0.0])
        >>> shares = BiasShares("absdot", {"output": bias})
        >>> columns = shares.enter("output", torch.zeros(1, 0, 2))
        >>> vectors = torch.tensor([[[3.0, 4.0], [-1.0, 0.0]]])  # products with the bias: 6 and -2
        >>> _ = shares.record("output", vectors)
        >>> shares.shares().tolist()
        [[[0.75], [0.25]]]
    """

    def __init__(self, rule: BiasRule, biases: dict[str, Tensor]) -> None:
        self.rule = rule
        self.biases = {} if rule == "none" else biases
        self.earlier: dict[str, Tensor] = {}  # place -> [R, k, dim] biases that entered before, as they arrive there
        self.products: dict[str, list[Tensor]] = {place: [] for place in self.biases}

    def enter(self, place: str, columns: Tensor) -> Tensor:
        """Returns the columns [R, k, dim] of the earlier biases with the bias of `place` as one more column."""
        if place not in self.biases:
            return columns
        self.earlier[place] = columns
        bias = self.biases[place].expand(len(columns), columns.shape[-1])
        return torch.cat([columns, bias.unsqueeze(1)], dim=1)

    def record(self, place: str, vectors: Tensor) -> Tensor:
        """Returns the vectors [R, c, dim] unchanged, and keeps their inner products that the bias's shares need."""
        if place not in self.biases:
            return vectors
        bias, parts = self.biases[place], []
        if self.rule in ("absdot", "abssim"):
            parts.append((vectors @ bias if bias.dim() == 1 else (vectors * bias.unsqueeze(1)).sum(-1)).unsqueeze(-1))
        if self.rule in ("abssim", "norm"):
            parts += [vectors.square().sum(-1, keepdim=True), vectors @ self.earlier[place].transpose(1, 2)]
        parts = parts or [vectors[..., :1].detach().clone()]  # the other rules only count the sources
        self.products[place].append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1))
        return vectors

    @property
    def needs_products_only(self) -> bool:
        """Whether shares need no more than products with the bias, so that `record_products` can replace `record`."""
        return self.rule not in ("abssim", "norm")

    def record_products(self, place: str, products: Tensor) -> None:
        """Keeps the products [R, c] of vectors with the place's bias, for vectors that are never formed."""
        if place in self.biases:
            self.products[place].append(products.unsqueeze(-1))

    def shares(self) -> Tensor | None:
        """Returns the fraction [R, S, K] of each bias that each source gets, in order of entry; None without biases."""
        shares: list[Tensor] = []
        for place in self.biases:
            shares.append(self._share(place, torch.cat(self.products[place], dim=1), shares))
        return torch.stack(shares, dim=-1) if shares else None

    def _share(self, place: str, products: Tensor, earlier_shares: list[Tensor]) -> Tensor:
        """Returns the shares [R, S] in the bias of `place`.

        Args:
            place: where the bias enters.
            products: [R, S, n] what `record` kept.
            earlier_shares: the shares [R, S] in the k biases that entered before.
        """
        if self.rule in ("equal", "cls", "token"):
            share = torch.zeros_like(products[..., 0])
            if self.rule == "equal":
                return share + 1 / share.shape[1]
            share[:, 0 if self.rule == "cls" else -1] = 1.0
            return share
        earlier, bias = self.earlier[place], self.biases[place]
        if earlier_shares:
            given = torch.stack(earlier_shares, dim=-1)  # [R, S, k]
        else:
            given = products.new_zeros(*products.shape[:2], 0)
        weight = torch.ones_like(products[..., 0])
        if self.rule in ("absdot", "abssim"):
            # (x + sum_q w_q b_q) . b from x . b and the products of biases
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


def distribute_bias(vectors: Tensor, bias: Tensor, rule: BiasRule) -> Tensor:
    """Returns the vectors [R, S, dim], each with its share of one bias added.

    Args:
        vectors: [R, S, dim].
        bias: [dim], or [R, dim] with one for each target.
        rule: see `BiasShares`.

    Example:
        >>> vectors = torch.tensor([[[3.0, 4.0], [-1.0, 0.0]]])
        >>> distribute_bias(vectors, torch.tensor([2.0, 0.0]), "absdot").tolist()  # shares 6/8 and 2/8
        [[[4.5, 4.0], [-0.5, 0.0]]]
    """
    bias_shares = BiasShares(rule, {"": bias})
    columns = bias_shares.enter("", vectors[:, :0])
    bias_shares.record("", vectors)
    shares = bias_shares.shares()
    return vectors if shares is None else vectors + shares @ columns
