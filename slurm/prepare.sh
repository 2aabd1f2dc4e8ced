#!/bin/bash
# Fetches data and models once, on a node with internet, so that array tasks only read: bash slurm/prepare.sh tm.yaml
set -euo pipefail
config=${1:?name a configuration, for example tm.yaml}
shift
mkdir -p slurm/logs  # sbatch does not make the folder of --output
python run.py fit --config "$config" --trainer.fast_dev_run true "$@"
