# Groups that are not in the everyday suite, but in `./test full`, or alone because they take as long as one likes.
# Sourced by ./test, whose functions they use.

group_tsan() {
  build tsan nibble_unit_tests nibble_device_tests && have_adapters || return 1
  local status=0 name engine icd run=(env TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp")
  check "unit tests, ThreadSanitizer" tsan-unit "${run[@]}" build/tsan/tests/nibble_unit_tests || status=1
  # On one adapter: what is watched is the same on both, and SwiftShader takes minutes. Without forks: at its exit a
  # driver joins threads of which ThreadSanitizer knows nothing in a child. Without all products at once, for which a
  # thread of that driver holds more locks than ThreadSanitizer can count.
  read -r name engine icd < <(adapters)
  check "device tests on $name, ThreadSanitizer" tsan-device "${run[@]}" VK_ICD_FILENAMES="$icd" NIBBLE_ENGINE="$engine" \
    NIBBLE_TEST_ADAPTER="$name" build/tsan/tests/nibble_device_tests --gtest_filter='-GpuForkTest.*:Kinds/ProductTest.*' || status=1
  return $status
}

# Their packages lie beside .venv: nothing else needs them.
group_models() {
  local packages=$PWD/build/models/python:$PWD/build/classify/python marks="not slow" full=()
  [[ -n ${NIBBLE_TEST_FULL-} ]] && marks="" full=(--full)
  have_adapters && setup_beside build/models tests/models/requirements.txt &&
    setup_beside build/classify examples/requirements-classify.txt || return 1
  check "export models" export-models env PYTHONPATH="$packages" .venv/bin/python3 tests/models/export_models.py "${full[@]}" &&
    check "export EfficientNet-Lite0" export-classify env PYTHONPATH="$packages" .venv/bin/python3 examples/classify.py --json &&
    PYTHONPATH=$packages on_adapters models models models -m "$marks" tests/models && models_in_chromium && classify_page "$packages"
}

# classify_page PACKAGES: the page of ./run --classify --web, in Chromium.
classify_page() {
  has_swiftshader || return 0
  use_node && check "the page of pictures" classify-page env PYTHONPATH="$1" .venv/bin/python3 examples/build_page.py \
    --into build/web/pages --classify &&
    check "bundle tests" web-bundle node web/tests/build.mjs &&
    check "the page of pictures in Chromium" classify-browser env NIBBLE_CLASSIFY=1 \
      node --test build/web/tests/browser/classify.test.js
}

# The small ones that are one delegate.
models_in_chromium() {
  has_swiftshader || return 0
  use_node || return 1
  check "npm package" models-web-build .venv/bin/python3 scripts/build_web.py &&
    check "bundle tests" models-web-bundle node web/tests/build.mjs &&
    check "index of models" models-web-index .venv/bin/python3 tests/models/web_index.py &&
    check "models in Chromium" models-web node --test --test-concurrency=1 build/web/tests/models/*.test.js
}

# On all adapters, side by side, with a seed of its own each.
group_search() {
  have_adapters || return 1
  local status=0 name engine icd names=() jobs=() i seed
  seed=$(date +%s)
  while read -r name engine icd; do
    seed=$((seed + 1))
    check "search for $search_seconds s on $name, $engine" "search-$name-$engine" env VK_ICD_FILENAMES="$icd" \
      NIBBLE_ENGINE="$engine" .venv/bin/python3 tests/search/search.py --seconds "$search_seconds" --seed "$seed" \
      >"build/logs/search-$name-$engine.out" &
    names+=("$name-$engine")
    jobs+=($!)
  done < <(adapters)
  for i in "${!jobs[@]}"; do
    wait "${jobs[i]}" || status=1
    cat "build/logs/search-${names[i]}.out"
  done
  return $status
}

# One adapter after the other: each takes all cores.
group_soak() {
  have_adapters && all_exports || return 1
  local status=0 name engine icd
  while read -r name engine icd; do
    check "soak for $soak_minutes min on $name, $engine" "soak-$name-$engine" env VK_ICD_FILENAMES="$icd" \
      NIBBLE_ENGINE="$engine" .venv/bin/python3 tests/soak/soak.py --minutes "$soak_minutes" || status=1
  done < <(adapters)
  return $status
}

# fuzz_one NAME: seeds and finds are kept in build/corpus/NAME; what was found before lies in tests/fuzz/seeds. Where a
# device is used, its driver keeps memory from input to input: leaks are looked for at the end, when it is closed.
fuzz_one() {
  local corpus=build/corpus/$1 found=tests/fuzz/seeds/$1 limits=(-timeout=10 -rss_limit_mb=2048)
  [[ $1 == capi || $1 == backend ]] && limits=(-timeout=30 -rss_limit_mb=4096 -detect_leaks=0)
  [[ -d $found ]] || found=
  "build/fuzz/tests/fuzz/fuzz_$1" -max_total_time="$fuzz_seconds" "${limits[@]}" -malloc_limit_mb=1024 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$corpus-find-" "$corpus" ${found:+"$found"}
}

# fuzz_lane NAMES...: one after the other.
fuzz_lane() {
  local status=0 name
  for name in "$@"; do check "fuzz_$name for $fuzz_seconds s" "fuzz-$name" fuzz_one "$name" || status=1; done
  return $status
}

# Two lanes, for two cores. Those with a device run on wgpu-native, whose library is beside the build.
group_fuzz() {
  local status=0 icd job programs=() first=(graph web) second=(blob pte grammar tuning)
  icd=$(adapters | sed -n 's/^[a-z]* wgpu //p' | head -n 1)
  if [[ -n $icd ]]; then
    first+=(capi)
    second+=(backend)
  else
    echo "  no adapter for wgpu-native found: fuzz_capi and fuzz_backend do not run"
  fi
  build fuzz $(printf 'fuzz_%s ' "${first[@]}" "${second[@]}") make_seeds || return 1
  [[ -d build/programs ]] && mapfile -t programs < <(find build/programs -name '*.pte')
  check "seeds" fuzz-seeds build/fuzz/tests/fuzz/make_seeds build/corpus "${programs[@]}" || return 1
  (
    export VK_ICD_FILENAMES=$icd NIBBLE_ENGINE=wgpu
    fuzz_lane "${second[@]}" >build/logs/fuzz-lane.out &
    job=$!
    fuzz_lane "${first[@]}" || status=1
    wait "$job" || status=1
    cat build/logs/fuzz-lane.out
    exit $status
  )
}
