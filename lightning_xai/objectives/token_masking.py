"""Trains a student to predict from a few tokens what its teacher predicts from all tokens."""

from __future__ import annotations

from typing import Any

import torch
from lightning import LightningDataModule, Trainer
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash, load_trained
from lightning_xai.models.checkpoints.class_order import align_classes
from lightning_xai.models.checkpoints.loading import copy_weights
from lightning_xai.objectives.composed import ComposedObjective
from lightning_xai.objectives.inner_search import Minimum, Search, require_finite
from lightning_xai.objectives.losses import probability_distances
from lightning_xai.objectives.mask_search import (
    DEFAULT_SEARCH,
    Mask,
    Sparsity,
    mask_sizes,
    masked_logits,
    sparse_variable,
)
from lightning_xai.objectives.schedules import Decay
from lightning_xai.objectives.terms.base import CleanPass, Task
from lightning_xai.objectives.trained_first import TrainedFirst
from lightning_xai.types import Batch


class TokenMasking(ComposedObjective):
    """Distills a teacher into a student whose predictions hardly change when most tokens are masked (TM).

    For every example, a search in eval mode finds a small mask that hardly changes the predicted probabilities. Where
    the mask is below 0.5, the token's embedding is replaced by the fill token's embedding. If `mask` is "dimension",
    this is done for each embedding dimension separately.

    The student minimizes |p_student(x) - p_teacher(x)| + masked_weight * |p_student(x) - p_student(masked x)|, summed
    over classes and averaged over examples.

    Args:
        teacher: a checkpoint, run folder or model folder; or a YAML file (`.yaml`) with the settings of a run that
            first trains the teacher. The student starts with the teacher's weights. Checkpoints contain only the
            student.
        masked_weight: factor of the second summand (lambda_3 in the paper).
        mask: "token" for one mask value per token, "dimension" for one value per embedding dimension of each token.
        fidelity_weight: in the search, factor of the change of the probabilities (beta in the paper). The paper's 0.01
            is for documents of thousands of tokens. Short texts need a larger factor, because dropping one of T tokens
            lowers the mean mask by 1 / T, which is large for small T. If the factor is too small, the search drops
            every token, and `train/kept_fraction` is 0.
        sparsity: how the search computes the size of the mask: as its "mean" or its "sum" over the tokens that are not
            padding.
        search: settings of the search. At a learning rate of 0.1, a mask value needs 20 steps to fall from its start,
            0.88, to 0.5.
        stop_gradient: whether p_student(x) is treated as a constant in the second summand.

    Raises:
        ValueError: a number is out of range, or the teacher does not exist. `setup` raises it if the teacher's run is
            unfinished, if the teacher's classes cannot be put in the order of the data's classes, or if the teacher's
            weights do not fit the network.

    Example:
        >>> import tempfile
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     random_bert().transformer.save_pretrained(folder)
        ...     objective = TokenMasking(random_bert(), folder, fidelity_weight=1.0)
        ...     objective.setup("fit")
        >>> batch = Batch(TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2]), torch.tensor([0]))
        >>> objective.eval().losses(batch)["distillation"].item() < 1e-6  # the student starts as its teacher
        True

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Section 3.1; after Bhalla et al. (2023).
    Differs: the paper's mask has T x D elements (`mask: dimension`, `sparsity: sum`), and its search has no stopping
        rule. The authors' code has one mask element per token, the mean of the mask over tokens and padding,
        `search.tolerance: 0.03`, `search.stop: batch`, `stop_gradient` and masked_weight 1. One step of 0.1 changes the
        mean mask by only about 1 %, so the tolerance of 0.03 can end the search at its third step. All masks are then
        still above 0.8, and no token is dropped.
    """

    def __init__(
        self,
        network: Classifier,
        teacher: str,
        optimizer: OptimizerCallable = lambda p: torch.optim.AdamW(p, lr=1e-5, weight_decay=0.0),
        warmup_fraction: float = 0.0,
        decay: Decay = "constant",
        masked_weight: float = 0.5,
        mask: Mask = "token",
        fidelity_weight: float = 0.01,
        sparsity: Sparsity = "mean",
        search: Search = DEFAULT_SEARCH,
        stop_gradient: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(network, optimizer=optimizer, warmup_fraction=warmup_fraction, decay=decay, **kwargs)
        require_choices({"mask": Mask, "sparsity": Sparsity}, {"mask": mask, "sparsity": sparsity})
        if min(masked_weight, fidelity_weight) < 0:
            raise ValueError(
                f"masked_weight is {masked_weight} and fidelity_weight is {fidelity_weight}: set both to 0 or more"
            )
        self.teacher = teacher
        self._source = TrainedFirst(teacher, "teacher")
        self.masked_weight = masked_weight
        self.mask: Mask = mask
        self.fidelity_weight = fidelity_weight
        self.sparsity: Sparsity = sparsity
        self.search = search
        self.independent_of_batch = self.independent_of_batch and search.independent_of_batch
        self.stop_gradient = stop_gradient
        # the cost of a training step in forward passes: 1 for the teacher, 1 to begin the search, 2 for each step of
        # the search, and 3 for each of the student's two passes (a forward pass and a backward pass)
        self.own_passes = 1 + 1 + 2 * search.num_steps + 2 * 3
        self._teacher: tuple[Classifier, ...] = ()  # in a tuple, so that torch does not register it as a submodule
        self._teacher_facts: dict[str, str] = {}  # path and hash of the teacher's file

    def runs_before(self, trainer: Trainer, data: LightningDataModule) -> list[str]:
        """Returns command-line options for the run that trains the teacher, or [] if the teacher exists.

        The teacher of the run runs/NAME/seedN is trained in runs/NAME_teacher/seedN.

        Raises:
            ValueError: that folder holds a run in another format.
        """
        return self._source.runs_before(trainer)

    def runs_after(self, trainer: Trainer, data: LightningDataModule) -> list[str]:
        """Returns []: no other run is needed after the run that trains the student."""
        return []

    def setup(self, stage: str) -> None:
        super().setup(stage)
        measures_terms = stage == "validate" and bool(self.terms)
        if stage != "fit" and not measures_terms:
            return
        path = self._source.trained_path(self._trainer)
        trusted = bool(self.network.init_args.get("trust_remote_code"))  # the student's setting holds for its teacher
        trained = load_trained(path, trust_remote_code=trusted)
        if self.data_module is not None:
            align_classes(trained.network, trained.class_names, self.data_module.class_names, path)
        teacher = trained.network
        if stage == "fit":
            # `take_encoder` compares the tokenizers of teacher and data. It would also pass the teacher's learned
            # vocabulary to the data. This is too late, because the texts are already encoded as token ids, so `learned`
            # is empty
            self.take_encoder(trained.encoder and {**trained.encoder, "learned": {}}, path)
            copy_weights(teacher, self.network, path)
        teacher.eval().requires_grad_(False)
        self._teacher = (teacher,)
        self._teacher_facts = {"teacher": path, "teacher_hash": checkpoint_hash(path)}

    def on_fit_start(self) -> None:
        self._teacher[0].to(self.device)
        if self.logger is not None:
            self.logger.log_hyperparams(self._teacher_facts)

    def on_validation_start(self) -> None:
        for teacher in self._teacher:
            teacher.to(self.device)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["teacher"] = dict(self._teacher_facts)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        before, now = checkpoint.get("teacher", {}).get("teacher_hash"), self._teacher_facts.get("teacher_hash")
        if before and now and before != now:
            raise ValueError(
                f"the fit began with a teacher whose hash is {before}, but {self._teacher_facts['teacher']} now has "
                f"the hash {now}: restore the former teacher, or start a new run"
            )

    @property
    def own_loss_reads_readout(self) -> bool:
        return False

    def task(self, batch: Batch) -> Task:
        network = self.network
        with torch.no_grad():
            teacher_probs = network.probabilities(logits_only(self._teacher[0], batch.inputs))

        def distances(logits: Tensor) -> Tensor:
            return probability_distances(network.probabilities(logits), teacher_probs)

        return Task(network, batch, distances, self.step_seed)

    def prepare(self, task: Task) -> Minimum:
        sparse = sparse_variable(
            task.network,
            task.batch.inputs,
            self.search,
            mask=self.mask,
            fidelity_weight=self.fidelity_weight,
            sparsity=self.sparsity,
        )
        return sparse._replace(variable=require_finite(sparse.variable, task.batch.index, "token mask"))

    def own_loss(self, clean: CleanPass, prepared: Minimum) -> tuple[Tensor, dict[str, Tensor]]:
        network, inputs = clean.network, clean.inputs
        keep = prepared.variable > 0  # [B, T, 1 or D], True where the mask (the sigmoid of the variable) exceeds 0.5
        masked_probs = network.probabilities(masked_logits(network, inputs, keep))
        probs = network.probabilities(clean.output.logits)
        distillation = clean.losses.mean()
        full_probs = probs.detach() if self.stop_gradient else probs
        masking = probability_distances(full_probs, masked_probs).mean()
        return distillation + self.masked_weight * masking, {
            "distillation": distillation,
            "masking": masking,
            "kept_fraction": mask_sizes(keep.float(), inputs.token_mask, sparsity="mean").mean(),
            "inner_steps": prepared.num_steps.float().mean(),
        }
