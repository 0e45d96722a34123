# Plugins that carry kernels for a GPU as data: a third-party one, written by `plugin new op --cuda`
# and built out of the tree by pkg-config, on the libraries that stand for CUDA's; and broken ones.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/fake_cuda.bash"

setup_file() {
    make_fake_cuda
    NVCC=$(command -v "${NVCC:-nvcc}" || ls /usr/local/cuda/bin/nvcc 2>/dev/null || :)
    export NVCC
    [ -z "$LACKING" ] || return 0
    export STAGE="$BATS_FILE_TMPDIR/stage"
    make -C "$builddir" install DESTDIR="$STAGE" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
    PKG_CONFIG_LIBDIR=$(dirname "$(find "$STAGE" -name moefw-cuda.pc)")
    export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR="$STAGE"
    INSTALLED=$(find "$STAGE" -path '*/bin/moefw')
    export INSTALLED
    unset MAKEFLAGS MFLAGS MAKELEVEL
    cd "$BATS_FILE_TMPDIR"
    "$INSTALLED" plugin new op mine -q --cuda
    make -C mine CC="$CC" CXX="${CXX:-g++}" NVCC= all emulated/run emulated/mine.so
    # The same with a fat binary; beside it are the kernels that run in its place.
    [ -z "$NVCC" ] && return
    "$INSTALLED" plugin new op fat -q --cuda
    make -C fat CC="$CC" CXX="${CXX:-g++}" NVCC="$NVCC" all emulated/fat.twin
    cp fat/emulated/fat.twin fat/
}

setup() {
    use_fake_cuda
    unset MAKEFLAGS MFLAGS MAKELEVEL
    hash=$builddir/tests/cuda/fake/routers/hash.so mine=$BATS_FILE_TMPDIR/mine fat=$BATS_FILE_TMPDIR/fat
}

tiny="--set model.dim=16 --set model.layers=1 --set model.heads=2 --set model.seq=8 --set train.batch=2
    --set moe.experts=4 --set data.path=builtin:topics?bytes=20000 --set data.tokenizer=byte
    --set train.warmup=2 --set train.eval_context=0 --set train.eval_every=0
    --set train.eval_batches=1 --set train.final_batches=1 --set train.log_every=1
    --set report.enabled=no"

# train DEVICE PLUGIN WORDS...: two steps
train() {
    local device=$1 plugin=$2
    shift 2
    # shellcheck disable=SC2086
    on "$device" train default $tiny --steps 2 --plugin "$plugin" "$@"
}

# runs PLUGIN: it has the losses of the CPU, with its kernels and no op on the host
runs() {
    train cpu "$1" -q --out cpu
    MOEFW_FAKE_STATS=1 run -0 train cuda "$1" -q --set device.strict=yes --out cuda
    [[ "$output" =~ "kernels of plugins "[1-9] ]]
    close_to cpu cuda 2
}

@test "hash, whose op has code for this GPU: no op on the host" {
    for words in "" "--set router.source=sign_bits --set router.hashes=3" \
        "--set router.table=balanced --set router.hashes=2" "--set router.source=quantised"; do
        rm -rf cpu cuda
        # shellcheck disable=SC2086
        {
            train cpu "$hash" -q --out cpu $words
            train cuda "$hash" -q --set device.strict=yes --out cuda $words
        }
        close_to cpu cuda 2
    done
}

@test "a plugin of pkg-config alone: make emulate, check and training with its kernels" {
    run -0 make -C "$mine" emulate CC="$CC" CXX="${CXX:-g++}"
    [ "$(grep -c '^ok - mine_cap: ' <<<"$output")" -eq 4 ]
    nm -D --undefined-only "$mine/emulated/mine.so" >symbols
    run ! grep -i cuda symbols
    runs "$mine/emulated/mine.so"
    MOEFW_PLUGIN_PATH=$fake run -0 "$MOEFW" plugin check "$mine/emulated/mine.so"
    [[ "$output" == *"ok    ops on a device   2 examples: the host's values on device cuda"* ]]
    run -0 "$MOEFW" plugin info "$mine/emulated/mine.so"
    [[ "$output" == *"op       mine_cap: cuda: code for the emulator ("* ]]
}

@test "a fat binary of nvcc runs, and plugin info names its architectures" {
    [ -n "$NVCC" ] || skip "no nvcc"
    nm -D --undefined-only "$fat/fat.so" >symbols
    run ! grep -i cuda symbols
    runs "$fat/fat.so"
    run -0 "$MOEFW" plugin info "$fat/fat.so"
    [[ "$output" == *"op       fat_cap: cuda: code for sm_80, sm_90, sm_120, compute_120 ("* ]]
    run -0 "$MOEFW" plugin info --json "$fat/fat.so"
    [[ "$output" == *'"ops":[{"name":"fat_cap","devices":"cuda: code for sm_80, '* ]]
}

# on_host LOG WORDS: the log says once that the op runs on the host, and why
on_host() {
    [ "$(grep -c ': it runs on the host$' "$1")" -eq 1 ] || { cat "$1"; return 1; }
    grep -q "$2.*: it runs on the host\$" "$1"
}

@test "a plugin without code runs on the host, named once in the log, refused by device.strict" {
    train cpu "$mine/mine.so" -q --out cpu
    train cuda "$mine/mine.so" -v --out cuda 2>log
    close_to cpu cuda 2
    # forward and backward are one op
    on_host log 'mine_cap.*has no launch function for device cuda'
    run -6 train cuda "$mine/mine.so" --set device.strict=yes --out strict
    [[ "$output" == *"mine_cap"*"has no launch function for device cuda; device.strict = no"* ]]
}

@test "an image with nothing for this GPU: the op runs on the host, or is refused by device.strict" {
    [ -n "$NVCC" ] || skip "no nvcc"
    cp -r "$fat" new
    rm new/fat.so new/fat.fatbin
    make -C new CC="$CC" NVCC="$NVCC" ARCHITECTURES="-gencode arch=compute_120,code=sm_120"
    train cpu new/fat.so -q --out cpu
    train cuda new/fat.so -v --out cuda 2>log
    close_to cpu cuda 2
    on_host log 'fat_cap.*has no code for device cuda: nothing in its image is for compute capability 8.0'
    MOEFW_FAKE_LATE=1 train cuda new/fat.so -v --out late 2>log # CUDA may load a kernel when it is first used
    close_to cpu late 2
    on_host log 'fat_cap.*has no code for device cuda: nothing in its image is for compute capability 8.0'
    run -6 train cuda new/fat.so --set device.strict=yes --out strict
    [[ "$output" == *"fat_cap"*"has no code for device cuda: nothing in its image"*"device.strict = no"* ]]
    MOEFW_PLUGIN_PATH=$fake run -0 "$MOEFW" plugin check new/fat.so
    [[ "$output" == *"-     ops on a device   fat_cap"*"has no code for device cuda"* ]]
    # on a GPU of that generation it runs
    MOEFW_EMU_ARCH=120 train cuda new/fat.so -q --set device.strict=yes --out gpu
    close_to cpu gpu 2
}

@test "without a GPU: plugin check says why the op was not tried on one" {
    run -0 "$MOEFW" plugin check "$mine/emulated/mine.so"
    [[ "$output" == *"-     ops on a device   "*"backend_cuda.so"* || "$output" == *"-     ops on a device   "*"no GPU"* ]]
    run -0 "$MOEFW" plugin check "$mine/mine.so"
    [[ "$output" == *"-     ops on a device   no example's op has code for device cuda"* ]]
}

# built NAME IMAGE [SED]: NAME.so, hash with this file as its image, after a change of its source
built() {
    sed "${3-}" "$srcdir/plugins/routers/hash.c" >"$1.c"
    ${CC:-cc} -std=gnu11 -I"$srcdir/include" -I"$builddir/include" -DMOEFW_IMAGE="\"$2\"" -fPIC \
        -fvisibility=hidden -shared -o "$1.so" "$1.c" -lm
}

# refused NAME WORDS: NAME.so is refused with status 4 and these words, by info and by training
refused() {
    run -4 "$MOEFW" plugin info "./$1.so"
    [[ "$output" == *"$1.so"*"op hash_route: its device code: "*"$2"* ]] || { echo "$output"; false; }
    run -4 train cpu "./$1.so" --out run
    [[ "$output" == *"$1.so"*"op hash_route: its device code: "*"$2"* ]]
    [ ! -e run ]
}

@test "broken images and tables: status 4, with the names of plugin and op" {
    twin=$builddir/tests/cuda/fake/routers/hash.twin
    head -c 4000 "$twin" >cut
    built cut cut
    refused cut "truncated or damaged ELF file"
    head -c 20 "$twin" >short
    built short short
    refused short "truncated ELF file"
    # a fat binary that ends in its second entry, by hand: header, then an entry of 64 + 8 bytes
    { printf '\x50\xed\x55\xba\x01\x00\x10\x00\x48\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x01\x40\x00\x00\x00'
      printf '\x08\x00\x00\x00\x00\x00\x00\x00'
      head -c 56 /dev/zero; } >whole
    built whole whole
    run -0 "$MOEFW" plugin info ./whole.so
    [[ "$output" == *"hash_route: cuda: code for sm_0 (0.1 KiB)"* ]]
    head -c 80 whole >fat
    built fat fat
    refused fat "truncated fat binary: expected a header of 16 bytes and 72 bytes behind it, found 80 bytes"
    sed 's/\x08\x00\x00\x00\x00\x00\x00\x00/\x09\x00\x00\x00\x00\x00\x00\x00/' whole >entry
    built entry entry
    refused entry "damaged fat binary: its entry 0 does not fit"
    printf 'nothing at all' >magic
    built magic magic
    refused magic "expected a fat binary (magic 0xba55ed50) or an ELF file, found magic 0x6874"
    printf '\xb1\x43\x62\x46 the wrapper' >wrapper
    built wrapper wrapper
    refused wrapper "this is the wrapper that nvcc links"
    built outside "$twin" 's/\.image_end = hash_image_end/.image_end = hash_image_end + 100000000/'
    refused outside "which is not in one section of it"
    built backward "$twin" 's/\.image = hash_image/.image = hash_image_end/;s/\.image_end = hash_image_end/.image_end = hash_image/'
    refused backward "expected image before image_end"
    built name "$twin" 's/"hash_route", .launch/"hash route", .launch/'
    refused name "expected the name of a kernel"
    built launch "$twin" 's/, \.launch = launch}/}/'
    refused launch "kernel hash_route: expected a launch function, found NULL"
    built sizes "$twin" 's/{.size = sizeof(mf_device_code)/{.size = 3/'
    refused sizes "mf_device_code: expected a size of"
    built none "$twin" 's/\.forward = kernels}/}/'
    refused none "expected kernels for forward only, found none"
    built pointer "$twin" 's/\.code = &code/.code = (const mf_device_code *)64/'
    run -4 "$MOEFW" plugin info ./pointer.so
    [[ "$output" == *"op hash_route: mf_device_code: expected the address of memory of the plugin"* ]]
    built random "$twin" 's/MF_OP_NO_GRAD,/MF_OP_NO_GRAD | MF_OP_RANDOM,/'
    refused random "draws random numbers"
    # an op without an example is judged when it is used
    built late magic 's/MF_PLUGIN_INIT_OPS/MF_PLUGIN_INIT/; s/&vtable, examples, sizeof.*/\&vtable);/'
    run -0 "$MOEFW" plugin info ./late.so
    run -4 train cpu ./late.so --out run
    [[ "$output" == *"plugin hash: op hash_route: its device code: expected a fat binary"* ]]
}

@test "a kernel of another name: status 4, named with plugin and op" {
    built other "$builddir/tests/cuda/fake/routers/hash.twin" 's/"hash_route", .launch/"hash_rout", .launch/'
    run -4 train cuda ./other.so --out run
    [[ "$output" == *"op hash_route"*"other.so"*"finding kernel 'hash_rout' in its image failed"* ]]
}

@test "a launch that no GPU takes: status 4, with its sizes" {
    built large "$builddir/tests/cuda/fake/routers/hash.twin" 's/THREADS = 128/THREADS = 2048/'
    run -4 train cuda ./large.so --out run
    [[ "$output" == *"hash_route"*"the launch of its kernel hash_route: expected 1 to 1024 threads"*"found block 2048 x 1 x 1"* ]]
}

# emulated SED: a copy of the plugin whose kernels are changed; make emulate finds the fault
emulated() {
    rm -rf copy
    cp -r "$mine" copy
    touch copy/emulated/run
    sed -i "$1" copy/mine.cu
    run -1 cmp copy/mine.cu "$mine/mine.cu"
    run -2 make -C copy emulate CC="$CC" CXX="${CXX:-g++}"
}

@test "make emulate finds faults of kernels, and names them with file and line" {
    emulated '0,/i < n;/s//i <= n;/'
    [[ "$output" == *"mine_cap_forward: bounds: read of 4 bytes outside any allocation, at mine.cu:"* ]]
    emulated '0,/i += mf_thread_count()/s//i += 1/'
    [[ "$output" == *"mine_cap_forward: race: global memory, write"* ]]
    emulated '0,/y\[i\] = c/s//y[i] += c/'
    [[ "$output" == *"mine_cap_forward: first use: global memory is read before it was written, at mine.cu:"* ]]
    emulated 's/(1 - s \* s)/(1 - s)/'
    [[ "$output" == *"not ok - mine_cap: backward: element 0 of gradient 0: expected"* ]]
    emulated 's/mine_cap_forward/mine_cap_other/'
    [[ "$output" == *"its image has no kernel mine_cap_forward"* ]]
}

@test "a kernel that reads out of bounds in training: the emulator names it, and the run fails" {
    emulated '0,/x\[i\]/s//x[i + (1 << 24)]/'
    run -99 train cuda copy/emulated/mine.so -q --out run # the libraries end so after a finding
    [[ "$output" == *"mine_cap_forward: bounds: read of 4 bytes outside any allocation, at mine.cu:"* ]]
}

@test "much shared memory, and one element a thread: every part of the launch arrives" {
    cp -r "$mine" copy
    touch copy/emulated/run
    sed -i -e 's/for (int64_t i = mf_thread_index(); i < n; i += mf_thread_count())/const int64_t i = mf_thread_index(); if (i < n)/' \
        -e 's/y\[i\] = c \* tanhf(x\[i\] \/ c);/{ MF_SHARED_DYNAMIC(room); float *at = (float *)room + 15000 + threadIdx.x; *at = x[i] \/ c; y[i] = c * tanhf(*at); }/' copy/mine.cu
    sed -i 's/^    ret->block\[0\] = THREADS;/&\n    ret->shared_bytes = 65536;/; s/THREADS = 256/THREADS = 32/' copy/mine.c
    run -0 make -C copy emulate CC="$CC" CXX="${CXX:-g++}"
    runs "$PWD/copy/emulated/mine.so"
    # Static memory counts for the 48 KiB that need no permission.
    sed -i 's/room + 15000/room + 9000/' copy/mine.cu
    sed -i 's/shared_bytes = 65536/shared_bytes = 40960/' copy/mine.c
    run -0 make -C copy emulate CC="$CC" CXX="${CXX:-g++}"
    rm -r cpu cuda
    MOEFW_FAKE_STATIC_SHARED=20480 runs "$PWD/copy/emulated/mine.so"
}

# failing CALL PLUGIN: this call fails once; the command ends with 1 or 6 and a message, or with the
# losses of a run without a failure; nothing is left
failing() {
    rm -rf failed
    MOEFW_FAKE_FAIL=$1 run train cuda "$2" -q --out failed
    case $status in
    0) close_to right failed 2 && return 0 ;;
    1 | 6) [[ "$output" == *"moefw: "*"failed"* ]] && return 0 ;;
    esac
    echo "call $1: status $status: $output"
    return 1
}

@test "calls that load and launch kernels of plugins fail: a message, nothing left" {
    train cuda "$hash" -q --out right
    for call in library:1 library:2 library:3 plugin:1 plugin:2; do
        failing $call "$hash"
        [ "$status" -ne 0 ]
    done
    failing library:40 "$hash" # there are not so many
    [ "$status" -eq 0 ]
}
