#!/bin/bash
# Downloads data and models on a node with internet, since array tasks work offline: bash slurm/prepare.sh tm.yaml
set -euo pipefail
config=${1:?name a configuration, for example tm.yaml}
shift
mkdir -p slurm/logs  # sbatch does not create the folder of --output
python run.py fit --config "$config" --trainer.fast_dev_run true "$@"
