#!/bin/sh
# big/run.sh [FOLDER]: pairs on a model of OLMoE's dimensions with 5 layers, 4.6 GB in bf16, of random weights: a prompt
# beside transformers and llama.cpp, decoding in bf16 and in 8 bits beside llama.cpp, and quantizing beside llama.cpp.
# FOLDER (out/big) keeps the model in all its forms, 17 GB; what is there stays. See ../README.md.
#   MOEFW, BENCH_PYTHON_CURRENT  as for ../run.sh
#   BENCH_BIG_OPTIONS            for each script: --pairs N, --threads N
set -eu
here=$(cd "$(dirname "$0")" && pwd)
MOEFW=${MOEFW:-$here/../../build/moefw}
python=${BENCH_PYTHON_CURRENT:-/opt/torchvenv/bin/python}
folder=${1:-$here/../out/big}
mkdir -p "$folder"
cd "$folder"
# make NAME COMMAND...: runs COMMAND, whose last word is then NAME-t, unless NAME is there
made() {
    name=$1
    shift
    [ ! -e "$name" ] || return 0
    rm -rf "$name-t" "$name-t.hf" # quantize keeps weights in a folder of the second name
    "$@" "$name-t"
    mv "$name-t" "$name"
}
made hf "$python" "$here/random_folder.py" olmoe --layers 5
made run "$MOEFW" import -q hf -o
made bf16 "$MOEFW" export gguf run -q -o
made int8 "$MOEFW" quantize run -q --bits 8 --group 32 --no-measure -o
"$python" "$here/quantize.py" --keep q8_0.gguf bf16/model.gguf
# shellcheck disable=SC2086 # lists of words
{
    "$python" "$here/prompt.py" "$MOEFW" hf run ${BENCH_BIG_OPTIONS:-}
    "$python" "$here/llama.py" "$MOEFW" run bf16/model.gguf ${BENCH_BIG_OPTIONS:-}
    "$python" "$here/llama.py" "$MOEFW" int8 q8_0.gguf --prompt 0 --weights int8 ${BENCH_BIG_OPTIONS:-}
    "$python" "$here/quantize.py" --moefw "$MOEFW" --run run ${BENCH_BIG_OPTIONS:-} bf16/model.gguf
}
