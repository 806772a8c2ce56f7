# The group `web` of ./test, which sources this.

# Every day, the page chats with a tiny model, and searches with the smaller one.
build_pages() {
  local chat=build/web/tiny models=(wordllama)
  if [[ -n ${NIBBLE_TEST_FULL-} ]]; then
    chat=build/smollm2 models+=(minilm)
  fi
  check "what the pages' tests compare with" web-page-cases .venv/bin/python3 tests/web/export_page.py "${models[@]}" &&
    check "the pages" web-page .venv/bin/python3 examples/build_page.py --into build/web/pages \
      --chat "$chat" --model "${models[-1]}"
}

# The programs and their tolerances are those of the group `python`; Dawn and Chromium run on SwiftShader.
group_web() {
  local status=0 name icd job jobs=() has_pages=yes swiftshader tests=build/web/tests run=(node --test --test-concurrency=1)
  rm -f build/ran/web.json
  use_node || return 1
  # One slot for many short steps: each would have to wait for its turn.
  take_slot
  check "npm package" web-build .venv/bin/python3 scripts/build_web.py || return 1
  check "bundle tests" web-bundle node web/tests/build.mjs || return 1
  for name in web web/tests web/demo; do
    check "tsc --strict, $name" "tsc-${name//\//-}" web/node_modules/.bin/tsc --project "$name" --noEmit || status=1
  done
  check "prettier" web-prettier env -C web node_modules/.bin/prettier --config .prettierrc.json --check . \
    ../python/nibble/_serve/page.{html,js} || status=1
  check "pure parts" web-unit "${run[@]}" "$tests"/unit/*.test.js || status=1
  check "tokenizer and server of the page" web-demo .venv/bin/python3 -m pytest tests/demo || status=1
  give_slot_back
  swiftshader=$(adapters | sed -n 's/^swiftshader dawn //p')
  if [[ -z $swiftshader ]]; then
    echo "  no SwiftShader found: nothing is run on Dawn and in Chromium"
    return $status
  fi
  all_exports || return 1
  # Before the slot: who imports it may wait for one.
  [[ -z ${NIBBLE_TEST_FULL-} ]] || chat_model || return 1
  take_slot
  check "cases" web-cases env VK_ICD_FILENAMES="$swiftshader" NIBBLE_ENGINE=dawn \
    .venv/bin/python3 tests/web/export_cases.py || return 1
  # This writes down the kernels that naga and Chromium are given.
  check "kernels through Tint" web-tint env VK_ICD_FILENAMES="$swiftshader" "${run[@]}" "$tests"/node/kernels.test.js ||
    return 1
  rm -f build/logs/web-{browser,node,node-checks}.out
  build_pages || has_pages=no
  give_slot_back
  # Chromium comes first, and takes no slot: it waits as much as it computes.
  if [[ $has_pages == yes ]]; then
    slots= check "in Chromium" web-browser "${run[@]}" "$tests"/browser/*.test.js >build/logs/web-browser.out &
    jobs+=($!)
  else
    status=1
  fi
  check "in Node on Dawn" web-node env VK_ICD_FILENAMES="$swiftshader" NIBBLE_RAN="$PWD/build/ran/web.json" \
    "${run[@]}" "$tests"/node/conformance.test.js >build/logs/web-node.out &
  jobs+=($!)
  check "checks and faults in Node" web-node-checks env VK_ICD_FILENAMES="$swiftshader" \
    "${run[@]}" "$tests"/node/{checks,faults,generate}.test.js >build/logs/web-node-checks.out &
  jobs+=($!)
  # On one adapter: what naga accepts does not depend on it.
  read -r name _ icd < <(adapters)
  check "kernels through naga on $name" "web-naga-$name" env VK_ICD_FILENAMES="$icd" NIBBLE_ENGINE=wgpu \
    .venv/bin/python3 tests/web/compile_kernels.py || status=1
  for job in "${jobs[@]}"; do wait "$job" || status=1; done
  cat build/logs/web-{browser,node,node-checks}.out 2>/dev/null
  return $status
}
