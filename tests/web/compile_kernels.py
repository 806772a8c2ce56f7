"""Compiles the kernels in build/web/kernels.json, which a test of the web writes, with wgpu: the same text passes naga.

Every day their text is checked; the full suite makes pipelines of them.

Dawn and browsers want `enable subgroups;` where a kernel uses them, and naga does not know it: this one line differs.
"""

import json
import os
import sys
from pathlib import Path

import wgpu

KERNELS = Path(__file__).resolve().parents[2] / "build" / "web" / "kernels.json"


def main() -> int:
    adapter = wgpu.gpu.request_adapter_sync()
    features = [name for name in ("shader-f16", "subgroup") if name in adapter.features]
    device = adapter.request_device_sync(required_features=features)
    kernels = json.loads(KERNELS.read_text())
    is_full = bool(os.environ.get("NIBBLE_TEST_FULL"))
    done, failed = 0, 0
    for kernel in kernels:
        text = kernel["wgsl"].replace("enable subgroups;\n", "")
        if "enable f16;" in text and "shader-f16" not in features:
            continue
        if "subgroup" in text and "subgroup" not in features:
            continue
        try:
            stage = {
                "module": device.create_shader_module(code=text),
                "entry_point": "main",
                "constants": {one["name"]: one["value"] for one in kernel["overrides"]},
            }
            if is_full:
                device.create_compute_pipeline(layout="auto", compute=stage)
            done += 1
        except wgpu.GPUError as error:
            failed += 1
            print(f"{kernel['label']}: {error}")
    what = "compiled" if is_full else "checked"
    print(f"{done} of {len(kernels)} kernels {what} on {adapter.info['device']}, {failed} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
