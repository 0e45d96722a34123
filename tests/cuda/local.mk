# Kernels of CUDA on a CPU: an emulator that judges every access of a kernel, its own tests, and a
# device of it (backend_emu.so), on which check_kernels runs. It needs a C++ compiler and no toolkit.
#   EMULATOR      the emulator
#   FAKE          libraries of CUDA for machines without a device
#   CUDA_CHECKS   what tests the emulator and kernels with it
EMULATOR =
EMULATOR += tests/cuda/emu.cc
EMULATOR += tests/cuda/judge.cc
EMULATOR += tests/cuda/late.cc
EMULATOR += tests/cuda/traffic.cc
EMULATOR_INC =
EMULATOR_INC += tests/cuda/emulate.cc
EMULATOR_INC += tests/cuda/emu.hh
EMULATOR_INC += tests/cuda/state.hh
FAKE =
FAKE += tests/cuda/fake.hh
FAKE += tests/cuda/fake_cublaslt.cc
FAKE += tests/cuda/fake_cudart.cc
FAKE += tests/cuda/fake_library.cc
FAKE += tests/cuda/fake_nccl.c
FAKE += tests/cuda/include/cublasLt.h
FAKE += tests/cuda/include/cuda_runtime_api.h
FAKE += tests/cuda/include/nccl.h
CUDA_CHECKS =
CUDA_CHECKS += tests/cuda/backend_emu.cc
CUDA_CHECKS += tests/cuda/check_emu.cc
CUDA_CHECKS += tests/cuda/gpu/check_gpu.sh
CUDA_CHECKS += tests/cuda/layouts/layouts.cc
CUDA_CHECKS += tests/cuda/layouts/layouts.hh
CUDA_CHECKS += tests/cuda/layouts/layouts_emu.cc
CUDA_CHECKS += tests/cuda/check_traffic.cc
CUDA_CHECKS += tests/cuda/mutants.sh
CUDA_CHECKS += tests/cuda/mutants.tsv
CUDA_CHECKS += tests/cuda/mutants_host.tsv
CUDA_CHECKS += tests/cuda/static/occupancy.cc
CUDA_CHECKS += tests/cuda/gpu/probe.cu
CUDA_CHECKS += tests/cuda/static/ptxas.sh
CUDA_CHECKS += tests/cuda/static/rest.tsv
CUDA_CHECKS += tests/cuda/static/rules.tsv
CUDA_CHECKS += tests/cuda/static/static.awk
CUDA_CHECKS += tests/cuda/traffic.tsv
EXTRA_DIST += $(EMULATOR) $(EMULATOR_INC) $(FAKE) $(CUDA_CHECKS)
