# fake_cuda.bash: for tests of the CUDA backend on the libraries of tests/cuda/fake_*.cc. They need
# what emulator.bash says, and a folder of their own as working folder.
#   fake      the folder with the backend
#   small     words that make a model and its steps small, without those of the data

. "$srcdir/tests/lib/emulator.bash"

# make_fake_cuda: for setup_file; sets LACKING to what the system lacks, in words
make_fake_cuda() {
    LACKING=$(lacking) # old versions of bats cannot skip here
    export LACKING
    [ -z "$LACKING" ] || return 0
    # MOEFW_FAKE: a folder with another backend: with a fault that mutants.sh planted, or, with
    # MOEFW_GPU=1, that of a GPU (check_gpu.sh)
    [ -n "$MOEFW_FAKE" ] || made fake-cuda
}

# fake_only: for tests of what the libraries count, and of calls that they let fail
fake_only() {
    [ -z "$MOEFW_GPU" ] || skip "a GPU counts nothing"
}

# use_fake_cuda [PROCESSORS]: for setup. One multiprocessor is four times as fast as four, the
# usual number: loops over all of them have fewer blocks, and the results of f32 are the same.
use_fake_cuda() {
    [ -z "$LACKING" ] || skip "$LACKING"
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    [ -z "$1" ] || export MOEFW_FAKE_PROCESSORS="$1"
    fake=${MOEFW_FAKE:-$builddir/tests/cuda/fake}
}

small="--set model.seq=8 --set train.batch=2 --set train.eval_every=0 --set train.eval_batches=1
    --set train.final_batches=1 --set train.log_every=1 --set train.save_every=0
    --set report.enabled=no"
text="--set data.path=builtin:topics?bytes=20000 --set data.tokenizer=byte"

# on DEVICE WORDS...: the program with words, on a device. Whatever is left on the device at the
# end makes the status 99.
on() {
    local device=$1
    shift
    MOEFW_PLUGIN_PATH=$fake MOEFW_FAKE_LEAKS=1 "$MOEFW" "$@" --device "$device"
}

# losses RUN: of each training step, with the norm of the gradient where it is measured
losses() {
    sed -nE -e '/"split":"train"/!d' -e 's/.*"loss":([^,]*),.*"grad_norm":([^,}]*).*/\1 \2/p' \
        -e 't' -e 's/.*"loss":([^,]*),.*/\1 0/p' "$1/metrics.jsonl"
}

# close_to A B STEPS [BOUND]: two runs have so many steps with the same losses and norms of
# gradients, up to bound x max(1, |value|); 1e-5
close_to() {
    [ "$(losses "$1" | wc -l)" -eq "$3" ]
    paste -d ' ' <(losses "$1") <(losses "$2") | awk -v bound="${4:-1e-5}" -v name="$1" '
        function size(a) { return a < 0 ? -a : a }
        function off(a, b) { return size(a - b) / (size(a) > 1 ? size(a) : 1) }
        { l = off($1, $3); g = off($2, $4); loss = l > loss ? l : loss; norm = g > norm ? g : norm }
        NF != 4 || !(l <= bound) || !(g <= bound) { print; bad = 1 }
        END { print name ": losses off by", loss + 0, "norms by", norm + 0; exit bad }'
}

# gemms_of TEXT: how many gemms cuBLASLt did, by what MOEFW_FAKE_STATS=1 prints. Fewer than usual:
# it had no algorithm for some, and a kernel of our own has multiplied, whose sums have another order
gemms_of() {
    sed -n 's/^fake runtime: gemms of cuBLASLt //p' <<<"$1"
}

# weights RUN: of its last checkpoint
weights() {
    cat "$1/ckpt/$(cat "$1/ckpt/latest")/model.safetensors"
}
