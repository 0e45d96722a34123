# Training on the CUDA backend, on libraries that stand for those of CUDA: what a run on a device
# computes is what the CPU computes. Models are small, since the emulator multiplies some hundred
# thousand times slower than a GPU; the slow group has the models of the presets at their sizes.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/fake_cuda.bash"

setup_file() {
    make_fake_cuda
}

setup() {
    use_fake_cuda 1
}

slow() {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
}

# sentences FILE LINES: "WORDS TAB LABEL"; one word of each decides the label
sentences() {
    awk -v lines="$2" 'function draw(n) { x = (x * 1103 + 12345) % 65521; return x % n }
        BEGIN {
            x = 7; split("the a film plot it is was so very and scene ends", w, " ")
            for (i = 0; i < lines; i++) {
                good = draw(2); n = 2 + draw(7); at = draw(n); s = ""
                for (j = 0; j < n; j++)
                    s = s (j ? " " : "") (j == at ? (good ? "fine" : "dull") : w[1 + draw(12)])
                print s "\t" (good ? "pos" : "neg")
            }
        }' >"$1"
}

# data_of PRESET: sets data to words with text or sentences, and sizes to words that make the
# preset's model small
data_of() {
    case $1 in
    tagat* | vanilla*)
        [ -e train.tsv ] || sentences train.tsv 200
        [ -e dev.tsv ] || sentences dev.tsv 20
        data="--data train.tsv --set data.val_path=dev.tsv"
        sizes="--set model.dim=16 --set model.vocab=auto --set model.classes=auto"
        ;;
    lamoe*)
        [ -e text.txt ] || "$MOEFW" data synth -o text.txt --bytes 20000 >/dev/null
        data="--data text.txt"
        sizes="--set model.dim=16 --set model.heads=4 --set expert.hidden=16 --set model.layers=1"
        ;;
    *)
        data=$text
        sizes="--set model.dim=16 --set model.heads=2 --set model.layers=1 --set expert.hidden=16"
        ;;
    esac
}

# alike CONFIG DTYPE BOUND WORDS...: ten steps of it on the CPU and on the device (20 on a GPU and in the slow
# group), without an op on the host, have the same losses
alike() {
    local config=$1 dtype=$2 bound=$3 steps=10 name device
    [ -z "$MOEFW_SLOW$MOEFW_GPU" ] || steps=20
    name=$(basename "$config" .ini)-$dtype
    shift 3
    # shellcheck disable=SC2086
    for device in cpu cuda; do
        on $device train "$config" -q $small --set train.epochs=0 --set train.steps=$steps \
            --set train.eval_context=0 --set device.strict=yes --set train.dtype="$dtype" "$@" --out "$name-$device"
    done
    close_to "$name-cpu" "$name-cuda" "$steps" "$bound"
}

# small_alike DTYPE BOUND PRESET...: the same with a small model
small_alike() {
    local dtype=$1 bound=$2 preset
    for preset in "${@:3}"; do
        data_of "$preset"
        # shellcheck disable=SC2086
        alike "$preset" "$dtype" "$bound" $data $sizes --set train.warmup=2
    done
}

gpt2="--set model.dim=16 --set model.layers=2 --set model.heads=2 --set model.vocab=0 --set train.warmup=2"

@test "steps of f32 have the losses of the CPU: default, a small GPT-2" {
    small_alike f32 1e-5 default
    # shellcheck disable=SC2086
    alike "$srcdir/bench/gpt2.ini" f32 1e-5 $text $gpt2
}

@test "steps of f32 have the losses of the CPU: published systems" {
    small_alike f32 1e-5 switch-quick lamoe-quick tagat-balanced-quick
}

@test "steps of bf16 have nearly the losses of the CPU" {
    small_alike bf16 2e-2 default lamoe-quick
    # shellcheck disable=SC2086
    alike "$srcdir/bench/gpt2.ini" bf16 2e-2 $text $gpt2
}

@test "steps of the other quick presets" {
    slow
    small_alike f32 1e-5 switch-as-run-quick switch-plus-quick switch-plus-as-run-quick lamoe-as-run-quick \
        vanilla-quick sentinel-quick tagat-balanced-as-run-quick tagat-specialised-quick tagat-specialised-as-run-quick vanilla-as-run-quick
    small_alike bf16 2e-2 switch-quick switch-as-run-quick switch-plus-quick switch-plus-as-run-quick \
        lamoe-as-run-quick tagat-balanced-quick tagat-balanced-as-run-quick tagat-specialised-quick \
        tagat-specialised-as-run-quick vanilla-quick vanilla-as-run-quick sentinel-quick
}

# Batches are smaller than those of the presets, and windows shorter; the models are whole. With so few
# tokens and the whole rate from the first steps on, rounding grows in 20 steps of bf16: between kernels
# of the CPU, losses of default come to differ by .1 and norms of lamoe by a twentieth. So warmup is that
# of the preset, and lamoe, which has none, gets one.
@test "steps of models at their full size" {
    slow
    for dtype in f32 bf16; do
        bound=1e-5
        [ $dtype = f32 ] || bound=2e-2
        for preset in default switch-quick switch-plus-quick lamoe-quick sentinel-quick tagat-balanced-quick; do
            data_of $preset
            warmup=
            [ $preset != lamoe-quick ] || warmup="--set train.warmup=20"
            # shellcheck disable=SC2086
            alike $preset $dtype $bound $data $warmup
        done
    done
}
