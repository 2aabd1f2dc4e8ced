"""The options of fit, validate, test and predict, in addition to the options of model, data and trainer."""

from __future__ import annotations

from lightning.pytorch.cli import LightningArgumentParser

from lightning_xai.callbacks.best_checkpoint import BestCheckpoint
from lightning_xai.commands.parser.data_links import link_network_to_data
from lightning_xai.commands.parser.preflight_options import add_preflight_arguments
from lightning_xai.runs.format import FORMAT
from lightning_xai.runs.splits import VALIDATION, log_prefix

RUNS_DIR = "runs"  # folder of all runs, unless --runs_dir names another
TRAINER_DEFAULTS = {
    "num_sanity_val_steps": 0,
    "inference_mode": False,
    "log_every_n_steps": 10,
    "enable_model_summary": False,  # Lightning's own summary is off: RunSummary prints a shorter one
}
HELP_OF_CLASSES = (
    "To list the arguments of a class, use --model.help Supervised, --data.help TextDataModule or "
    "--trainer.callbacks.help ComputeAttributions; for any other class, such as a source, network, method or metric, "
    "use run.py --help CLASS."
)


def add_run_arguments(parser: LightningArgumentParser) -> None:
    """Adds the options of a run to a parser. Also lets the parser set arguments of the network from the data.

    The parser must already have the arguments of model, data and trainer.
    """
    parser.epilog = HELP_OF_CLASSES
    parser.add_argument("--experiment", type=str | None, default=None, help="name of the experiment")
    parser.add_argument("--runs_dir", type=str, default=RUNS_DIR, help="folder of all runs")
    parser.add_argument("--test_after_fit", type=bool, default=True, help="test the best checkpoint after the fit")
    parser.add_argument(
        "--follow_up", type=bool, default=True, help="also start runs that must precede or follow this run"
    )
    add_preflight_arguments(parser)
    parser.add_argument("--stage", type=str | None, default=None, help="fit only this stage of a chain")
    parser.add_argument("--format", type=int, default=FORMAT, help="format of a saved configuration")
    parser.add_lightning_class_args(BestCheckpoint, "checkpoint")
    parser.set_defaults(
        {
            "checkpoint.filename": "best",
            "checkpoint.monitor": f"{log_prefix(VALIDATION)}/log_loss",
            "checkpoint.enable_version_counter": False,
            "checkpoint.auto_insert_metric_name": False,
        }
    )
    parser.link_arguments("seed_everything", "data.init_args.seed")
    link_network_to_data(parser)
