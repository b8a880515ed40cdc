#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is to be learned on a machine with a GPU, in order, in one command. Results are written as they come,
# so that a machine that is taken away leaves what was done until then. Nothing is built or downloaded; Python is used
# where it is there (models' configurations are written without any package, peers need torch and transformers).
#
#   bench/gpu/all.sh --build build/release --output results              all parts, some 25 minutes on an H200
#   bench/gpu/all.sh --build build/release --output results --part 3     one part, under 10 minutes
#   bench/gpu/all.sh --build build/release --output results --dry        small sizes on the emulated OpenCL device
#
# --build: a built tree, or where the tarball of scripts/package was unpacked. --device: cuda (default), rocm, opencl.
# Exit status 1 if a step failed; the others run nevertheless. summary.txt has one line a step.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=build/release output=results device=cuda dry= parts="1 2 3 4 5 6 7"
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --part) parts=$2; shift 2 ;;
    --dry) dry=1; shift ;;
    *) echo "all.sh: expected --build, --output, --device, --part or --dry, found $1" >&2; exit 2 ;;
  esac
done
transom=$build/bin/transom
[ -x "$transom" ] || { echo "all.sh: expected the program $transom, found none; say where with --build" >&2; exit 2; }
python=$(command -v python3 || true)
mkdir -p "$output/models"
output=$(cd "$output" && pwd)
scale=full rows=8 length=512 tokens=64 flood=100000
if [ -n "$dry" ]; then
  scale=dry rows=2 length=8 tokens=4 flood=4
  if [ "$device" = cuda ] && [ -e "$build/emulators/libOpenCL.so.1" ]; then
    device=opencl
    export TRANSOM_OPENCL_LIBRARY=${TRANSOM_OPENCL_LIBRARY:-$(cd "$build" && pwd)/emulators/libOpenCL.so.1}
  fi
fi
# NVIDIA's libraries come with torch where there is no toolkit.
if [ "$device" = cuda ] && [ -n "$python" ] && [ -z "${VIRTUAL_ENV:-}" ]; then
  VIRTUAL_ENV=$("$python" -c 'import sys; print(sys.prefix)'); export VIRTUAL_ENV
fi
failed=0

# step NAME SECONDS COMMAND...: its output in NAME.txt, its status and time in summary.txt.
step() {
  local name=$1 limit=$2 began=$SECONDS status
  shift 2
  { echo "\$ $*"; timeout "$limit" "$@"; } > "$output/$name.txt" 2>&1
  status=$?
  [ $status -eq 0 ] || failed=1
  printf '%-28s status %3d  %4d s  %s\n' "$name" $status $((SECONDS - began)) \
    "$(tail -n 1 "$output/$name.txt" | cut -c1-110)" | tee -a "$output/summary.txt"
}
# optional NAME SECONDS COMMAND...: as step, where the program is there.
optional() {
  if command -v "$3" > /dev/null; then step "$@"; else echo "$1: no $3 here" | tee -a "$output/summary.txt"; fi
}
model() { [ -e "$output/models/$1/config.json" ] || "$python" "$here/inputs.py" "$scale" "$1" "$output/models"; }
wanted() { case " $parts " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

if [ -z "$python" ]; then
  echo "all.sh: no python3 here: only parts 1 and 2 run" | tee -a "$output/summary.txt"
  parts="1 2"
fi
{ echo "device $device, scale $scale, parts $parts"; date -u; } >> "$output/summary.txt"

if wanted 1; then  # what is here
  optional 1-nvidia-smi 60 nvidia-smi -q
  optional 1-rocm-smi 60 rocm-smi
  step 1-devices 60 "$transom" devices
  step 1-linked 60 ldd "$transom"
fi

if wanted 2; then  # is it right: behaviour, then operations, small shapes
  step 2-behaviour 120 "$transom" certify --device "$device" --level behaviour \
    --output "$output/certificate-behaviour"
  step 2-operations 420 "$transom" certify --device "$device" --level operations --seed 1 \
    --output "$output/certificate-operations"
fi

# shares NAME...: what the trace NAME.trace says of products and attention, beside the peak of the chip.
shares() {
  local name=$1
  shift
  step "$name-share" 20 "$python" "$here/share.py" "$output/$name.trace" --devices "$output/1-devices.txt" "$@"
}

if wanted 3; then  # products: by the library, by our own kernels over matrix units, of packed weights and of integers
  for type in float32 bfloat16; do
    model product && for products in library own; do
      [ "$products-$device" = library-opencl ] && continue
      TRANSOM_GPU_PRODUCTS=$products step "3-product-$type-$products" 120 "$transom" bench "$output/models/product" \
        --device "$device" --dtype $type --batch_size $((rows * 8)) --sequence_length $((length / 4)) \
        --duration 3 --warmup_runs 3 --profile "$output/3-product-$type-$products.trace"
      shares "3-product-$type-$products"
    done
  done
  for form in nf4 int8; do
    step "3-product-$form" 120 "$transom" bench "$output/models/product" --device "$device" --dtype bfloat16 \
      --quantization $form --batch_size $rows --sequence_length $((length / 4)) --duration 3 --warmup_runs 3 \
      --profile "$output/3-product-$form.trace"
    shares "3-product-$form"
  done
  [ -z "$dry" ] && step 3-product-peer 120 "$python" "$here/peer.py" product
fi

if wanted 4; then  # attention of long texts by cuDNN and by our own kernel (other devices have that alone), and its
  # gradient: wanted are 60 % and 50 % of the chip's peak. The shares name the kernel
  model attention && for keys in 512 2048 8192; do
    [ -n "$dry" ] && keys=$((keys / 64))
    for road in library own; do
      [ $road = library ] && [ "$device" != cuda ] && continue
      for task in forward train; do
        name=4-attention-$task-$keys-$road
        [ $road = own ] && export TRANSOM_GPU_PRODUCTS=own
        step "$name" 120 "$transom" bench "$output/models/attention" --task $task --device "$device" --dtype bfloat16 \
          --batch_size 1 --sequence_length $keys --duration 3 --warmup_runs 3 --profile "$output/$name.trace"
        unset TRANSOM_GPU_PRODUCTS
        shares "$name" --causal
      done
    done
  done
fi

if wanted 5; then  # modes, a new length, copies
  model bert
  for mode in lazy graph; do
    step "5-mode-$mode" 120 "$transom" bench "$output/models/bert" --device "$device" --mode $mode --duration 3
    step "5-bits-$mode" 120 "$transom" forward --model "$output/models/bert" \
      --inputs "$output/models/bert/inputs.safetensors" --outputs "$output/5-$mode.safetensors" \
      --device "$device" --mode $mode
  done
  step 5-same-bits 10 cmp "$output/5-lazy.safetensors" "$output/5-graph.safetensors"
  for tokens_of_text in 64 96; do
    step "5-length-$tokens_of_text" 120 "$transom" bench "$output/models/bert" --device "$device" \
      --sequence_length $tokens_of_text --duration 2
  done
fi

if wanted 6; then  # training steps and decoding, beside torch.compile in the same minutes
  for name in bert-large gpt2-medium llama-1b; do
    model $name || continue
    step "6-train-$name" 150 "$transom" bench "$output/models/$name" --task train --device "$device" --dtype bfloat16 \
      --batch_size $rows --sequence_length $length --duration 5 --warmup_runs 3 --json "$output/6-train-$name.json"
    [ -z "$dry" ] && step "6-train-$name-peer" 150 "$python" "$here/peer.py" train "$output/models/$name" $rows $length
  done
  model llama-1b && for texts in 1 32; do
    step "6-decode-llama-1b-$texts" 120 "$transom" bench "$output/models/llama-1b" --task text-generation \
      --device "$device" --dtype bfloat16 --batch_size $texts --sequence_length $((length / 4)) \
      --max_new_tokens $tokens --duration 5
  done
fi

if wanted 7; then  # faults, last: after some of them a device is lost
  # Whether it fits or is refused, it ends by itself.
  model llama-1b && step 7-out-of-memory 120 bash -c '"$0" "$@"; [ $? -le 1 ]' "$transom" bench \
    "$output/models/llama-1b" --device "$device" --batch_size $flood --sequence_length $((length * 4)) \
    --duration 1
  optional 7-memcheck 300 compute-sanitizer --tool memcheck --error-exitcode 9 "$transom" forward \
    --model "$output/models/bert" --inputs "$output/models/bert/inputs.safetensors" \
    --outputs "$output/7.safetensors" --device "$device"
fi
echo "done, status $failed" >> "$output/summary.txt"
exit $failed
