#!/bin/bash
# Downloads data and models and encodes the data, on a node with internet, since array tasks work offline:
# bash slurm/prepare.sh tm.yaml. Set LIGHTNING_XAI_CACHE to a folder that all nodes see.
set -euo pipefail
config=${1:?name a configuration, for example tm.yaml}
shift
mkdir -p slurm/logs  # sbatch does not create the folder of --output
python run.py data --config "$config" "$@"
