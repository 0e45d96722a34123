#!/bin/sh
# qsub -v CONFIG=FILE,RUN=DIR pbs.sh: trains CONFIG into the directory RUN, which all nodes share.
# train.time_limit ends the run with a checkpoint and 75 before the time of the job is over; then
# the next job is submitted, which continues RUN.
#PBS -N moefw
#PBS -l select=2:ncpus=32:mpiprocs=2
#PBS -l walltime=04:00:00
#PBS -j oe
set -u
cd "${PBS_O_WORKDIR:-.}" || exit 1
config=${CONFIG:?} run=${RUN:?}
if [ -e "$run/ckpt/latest" ]; then
    set -- train "$run" --resume
else
    set -- train "$config" --out "$run"
fi
ranks=$(wc -l <"$PBS_NODEFILE")
"${MPIRUN:-mpirun}" -n "$ranks" "${MOEFW:-moefw}" "$@" --set train.time_limit="${LIMIT:-13800}"
code=$?
[ $code -ne 75 ] || qsub -v "CONFIG=$config,RUN=$run" "${JOB:-pbs.sh}"
exit $code
