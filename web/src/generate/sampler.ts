// Chooses tokens: src/generate/sampler.hpp, the same bits as natively.

import type { Sequence } from "./sequence.js";
import type { Sampling } from "./settings.js";
import type { TextModule } from "./text_module.js";

/** The layout of Chosen, of Logprob and of TokenBias in src/web_text/exports.hpp. */
const CHOSEN = { needsAllLogits: 0, id: 4, logprob: 8, top: 16, topCount: 20 };
const PAIR = { id: 0, number: 8, size: 16 };

export interface Logprob {
  id: number;
  logprob: number;
}

export interface Choice extends Logprob {
  top: Logprob[];
}

/** The likeliest tokens, as the device found them. */
export interface Candidates {
  logits: Float32Array;
  ids: Int32Array;
  total: number;
}

const all = new Uint32Array(0);

export class Sampler {
  private readonly at: number;

  constructor(
    private readonly text: TextModule,
    sampling: Sampling,
    vocabulary: number,
  ) {
    const biases = new DataView(new ArrayBuffer(sampling.logitBias.length * PAIR.size));
    sampling.logitBias.forEach(([id, bias], i) => {
      biases.setInt32(i * PAIR.size + PAIR.id, id, true);
      biases.setFloat64(i * PAIR.size + PAIR.number, bias, true);
    });
    this.at = text.withArrays([biases], (at) =>
      text.call((e) =>
        e.nibble_sampler_new(
          BigInt(vocabulary),
          sampling.temperature,
          BigInt(sampling.topK),
          sampling.topP,
          sampling.minP,
          sampling.repetitionPenalty,
          BigInt(sampling.repetitionWindow),
          sampling.presencePenalty,
          sampling.frequencyPenalty,
          BigInt(sampling.seed),
          sampling.logprobs ? 1 : 0,
          BigInt(sampling.topLogprobs),
          at!,
          sampling.logitBias.length,
        ),
      ),
    );
  }

  free(): void {
    this.text.run((e) => e.nibble_sampler_free(this.at));
  }

  /** `allowed` has a bit for each token; without it all are. */
  fromLogits(sequence: Sequence, logits: Float32Array, allowed: Uint32Array = all): Choice {
    return this.text.withArrays([logits, allowed], (values, mask) => {
      const chosen = this.text.call((e) =>
        e.nibble_sampler_from_logits(this.at, sequence.at, values!, logits.length, mask!, allowed.length),
      );
      return this.read(chosen);
    });
  }

  /** Undefined: the candidates do not decide it, all logits are needed. */
  fromCandidates(
    sequence: Sequence,
    { logits, ids, total }: Candidates,
    allowed: Uint32Array = all,
  ): Choice | undefined {
    return this.text.withArrays([logits, ids, allowed], (values, tokens, mask) => {
      const chosen = this.text.call((e) =>
        e.nibble_sampler_from_candidates(
          this.at,
          sequence.at,
          values!,
          tokens!,
          ids.length,
          total,
          mask!,
          allowed.length,
        ),
      );
      const isUndecided = this.text.view.getUint32(chosen + CHOSEN.needsAllLogits, true) !== 0;
      return isUndecided ? undefined : this.read(chosen);
    });
  }

  private read(at: number): Choice {
    const { view } = this.text;
    const top = view.getUint32(at + CHOSEN.top, true);
    return {
      id: view.getInt32(at + CHOSEN.id, true),
      logprob: view.getFloat64(at + CHOSEN.logprob, true),
      top: Array.from({ length: view.getUint32(at + CHOSEN.topCount, true) }, (_, i) => ({
        id: view.getInt32(top + i * PAIR.size + PAIR.id, true),
        logprob: view.getFloat64(top + i * PAIR.size + PAIR.number, true),
      })),
    };
  }
}
