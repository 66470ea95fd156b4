#!/usr/bin/env bash
# Makes one table with several processes that GNU parallel starts, on this machine or on those of a login file; each plays
# a part of the cells, and the last one writes the table.
#
#     examples/reproduce-parallel.sh 4 fedism-plus-table2 --raw kaggle
#     PARALLEL="--sshloginfile nodes --workdir ." examples/reproduce-parallel.sh 8 fedism-plus-table2 --raw kaggle
#
# Other machines need the same environment and this folder, on a file system that all share.
set -euo pipefail

parts=${1:?usage: examples/reproduce-parallel.sh PARTS TABLE [FLAGS]}
shift
mapfile -t numbers < <(seq "$parts")
exec parallel --quote --jobs "$parts" --line-buffer fedcli reproduce "$@" --cells "{}/$parts" ::: "${numbers[@]}"
