#!/bin/sh
# sbatch slurm.sh CONFIG RUN [WORDS...]: trains CONFIG into the directory RUN, which all nodes share.
# Two minutes before the end of its time Slurm sends SIGUSR1 to the ranks; they save and end with
# 75, and the job goes into the queue again and continues RUN. For MPICH: MPI=pmi2.
#SBATCH --job-name=moefw
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
[ $# -ge 2 ] || { echo "usage: sbatch slurm.sh CONFIG RUN [WORDS...]" >&2; exit 2; }
config=$1 run=$2
shift 2
if [ -e "$run/ckpt/latest" ]; then
    set -- train "$run" --resume
else
    set -- train "$config" --out "$run" "$@"
fi
srun --mpi="${MPI:-pmix}" "${MOEFW:-moefw}" "$@" --set train.on_usr1=stop
code=$?
[ $code -ne 75 ] || exec scontrol requeue "$SLURM_JOB_ID"
exit $code
