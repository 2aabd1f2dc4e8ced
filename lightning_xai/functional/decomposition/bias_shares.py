"""Divides the biases of a layer among source tokens. A target token's state is the sum of one vector per source token.

Letters in shapes:
    R: number of targets (tokens whose states are decomposed)
    S: number of sources (tokens among which biases are divided)
    c: number of sources in a chunk
    K: number of biases of a layer
    k: number of biases that the layer adds before a given bias
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

BiasRule = Literal["absdot", "abssim", "norm", "equal", "cls", "token", "none"]


class BiasShares:
    """Divides each bias b of a layer among the source tokens j. The shares depend on the tokens' vectors x_j.

    Source token j gets the fraction w_j / sum_i w_i of b. The rule determines the weight w_j: |x_j . b| for "absdot",
    |x_j . b| / |x_j| for "abssim" (the absolute cosine times |b|; the factor |b| cancels in the fraction), |x_j| for
    "norm", and 1 for "equal". Three rules use no weights: "cls" gives the whole bias to the first source, "token" gives
    it to the last source, and "none" gives it to no source. The vector x_j of source j is taken just before b is added,
    and includes j's shares of all earlier biases.

    Shares are known only after all sources have passed through the layer, but the vectors of all sources together do
    not fit in memory. The computation therefore has three steps:

    1. Only the biases pass through the layer. Where the layer adds a bias, `enter` appends it as a column.
    2. The sources pass through the layer in chunks. `record` stores only inner products of their vectors.
    3. `shares` computes the shares of all sources from these inner products.

    Args:
        rule: how a bias is divided, see above.
        biases: name of a place in the layer -> the bias that is added there: [dim], or [R, dim] with one bias per
            target. The places are in the order in which the layer reaches them.

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
        # place in the layer -> [R, k, dim]: for each of R target tokens, the k biases that the layer adds before this
        # place, as the layer has transformed them up to here
        self.earlier: dict[str, Tensor] = {}
        self.products: dict[str, list[Tensor]] = {place: [] for place in self.biases}

    def enter(self, name: str, columns: Tensor) -> Tensor:
        """Appends a bias to the biases that the layer has added before, and returns the result [R, k + 1, dim].

        Args:
            name: place in the layer where the bias is added. If no bias is added there, `columns` is returned.
            columns: [R, k, dim], the k earlier biases for each of R target tokens.
        """
        if name not in self.biases:
            return columns
        self.earlier[name] = columns
        bias = self.biases[name].expand(len(columns), columns.shape[-1])
        return torch.cat([columns, bias.unsqueeze(1)], dim=1)

    def record(self, name: str, vectors: Tensor) -> Tensor:
        """Stores the inner products of vectors that `shares` will need. Returns the vectors unchanged.

        Args:
            name: place in the layer where a bias is added.
            vectors: [R, c, dim], the vectors of c source tokens for each of R target tokens, just before this place.
        """
        if name not in self.biases:
            return vectors
        bias, parts = self.biases[name], []
        if self.rule in ("absdot", "abssim"):
            parts.append((vectors @ bias if bias.dim() == 1 else (vectors * bias.unsqueeze(1)).sum(-1)).unsqueeze(-1))
        if self.rule in ("abssim", "norm"):
            parts += [vectors.square().sum(-1, keepdim=True), vectors @ self.earlier[name].transpose(1, 2)]
        parts = parts or [vectors[..., :1].detach().clone()]  # for "equal", "cls" and "token", only the shape is used
        self.products[name].append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1))
        return vectors

    @property
    def needs_products_only(self) -> bool:
        """Whether the bias rule uses a vector only through its inner product with the bias, or not at all.

        A caller that knows these inner products can then call `record_products` instead of `record`.
        """
        return self.rule not in ("abssim", "norm")

    def record_products(self, name: str, products: Tensor) -> None:
        """Does the same as `record`, but gets the inner products instead of the vectors.

        Args:
            name: place in the layer where a bias is added.
            products: [R, c], the inner products of this bias with the vectors of c source tokens, for each of R target
                tokens.
        """
        if name in self.biases:
            self.products[name].append(products.unsqueeze(-1))

    def shares(self) -> Tensor | None:
        """Returns the fractions [R, S, K] of K biases that S source tokens get; None if there are no biases.

        Each of the R target tokens has fractions of its own.
        """
        shares: list[Tensor] = []
        for place in self.biases:
            shares.append(self._share(place, torch.cat(self.products[place], dim=1), shares))
        return torch.stack(shares, dim=-1) if shares else None

    def _share(self, name: str, products: Tensor, earlier_shares: list[Tensor]) -> Tensor:
        """Returns the fractions [R, S] of one bias that S source tokens get, for each of R target tokens.

        Args:
            name: place in the layer where the bias is added.
            products: [R, S, n], the n inner products that `record` stored for each source token.
            earlier_shares: k tensors [R, S], the fractions of the k biases that the layer adds before this bias.
        """
        if self.rule in ("equal", "cls", "token"):
            share = torch.zeros_like(products[..., 0])
            if self.rule == "equal":
                return share + 1 / share.shape[1]
            share[:, 0 if self.rule == "cls" else -1] = 1.0
            return share
        earlier, bias = self.earlier[name], self.biases[name]
        if earlier_shares:
            given = torch.stack(earlier_shares, dim=-1)  # [R, S, k]
        else:
            given = products.new_zeros(*products.shape[:2], 0)
        weight = torch.ones_like(products[..., 0])
        if self.rule in ("absdot", "abssim"):
            # a source token has received the fractions given_q of the earlier biases b_q, so its vector is
            # x + sum_q given_q b_q, and its inner product with b is x . b + sum_q given_q b_q . b
            along = (earlier * bias.expand(len(earlier), -1).unsqueeze(1)).sum(-1)  # [R, k]
            weight = (products[..., 0] + (given * along.unsqueeze(1)).sum(-1)).abs()
            products = products[..., 1:]
        if self.rule in ("abssim", "norm"):
            # squared norm of a source token's vector with its fractions given_q of the earlier biases b_q:
            # |x + sum_q given_q b_q|^2 = |x|^2 + sum_q given_q (2 x . b_q + sum_p given_p b_p . b_q)
            between = given @ (earlier @ earlier.transpose(1, 2))
            square = products[..., 0] + (given * (2 * products[..., 1:] + between)).sum(-1)
            length = square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()
            weight = weight / length if self.rule == "abssim" else length
        return weight / weight.sum(dim=1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)


def distribute_bias(vectors: Tensor, bias: Tensor, rule: BiasRule) -> Tensor:
    """Divides a bias among source tokens, adds the shares to their vectors, and returns the sums [R, S, dim].

    Args:
        vectors: [R, S, dim], the vectors of S source tokens for each of R target tokens.
        bias: [dim], or [R, dim] with one bias per target token.
        rule: how the bias is divided, see `BiasShares`.

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
