// The planner's part of one session: it checks the inputs of a call, and plans the call.

import * as wire from "#wire";
import type { BadElement } from "./convert.js";
import type { NibbleError } from "./errors.js";
import { type Given, MAX_RANK, numberOf } from "./inputs.js";
import type { Address, Planner } from "./planner.js";

const noDims: number[] = [];

export class Stepper {
  /** Address of the inputs that the last call accepted. */
  private taken: Address = 0;

  constructor(
    readonly planner: Planner,
    /** Its number. */
    readonly session = planner.call((e) => e.nibble_session_new()),
  ) {}

  /** The stepper cannot be used after this. */
  free(): void {
    this.planner.free((e) => e.nibble_session_free(this.session));
  }

  /** Checks the inputs of a call; throws the planner's error if it refuses them. */
  take(inputs: readonly Given[]): void {
    const { planner } = this;
    // First, because it refuses a wrong number of them.
    const at = planner.call((e) => e.nibble_session_given(this.session, inputs.length));
    planner.withTexts(
      inputs.map(({ word }) => word),
      (words) => {
        const { view } = planner;
        inputs.forEach((input, i) => {
          const { kind, dtype, shape, count, integer } = input;
          wire.writeGivenInput(view, at + i * wire.sizeofGivenInput, {
            kind,
            dtype,
            word: words[i]!.at,
            wordBytes: words[i]!.bytes,
            hasShape: shape !== undefined,
            shape: { rank: shape?.length ?? 0, dims: shape && shape.length <= MAX_RANK ? [...shape] : noDims },
            count,
            hasInteger: integer !== undefined,
            integer: integer ?? 0n,
          });
        });
        const taken = planner.call((e) => e.nibble_session_take(this.session));
        this.taken = planner.view.getUint32(taken + wire.atTaken.inputs, true);
      },
    );
  }

  /** An input as take() accepted it. */
  takenInput(input: number): wire.TakenInput {
    return wire.readTakenInput(this.planner.view, this.taken + input * wire.sizeofTakenInput);
  }

  /** Gives the planner the elements of an input that it reads itself. */
  setHostData(input: number, elements: Int32Array): void {
    if (elements.length === 0) return;
    const at = this.planner.call((e) => e.nibble_session_host_data(this.session, input, elements.length));
    new Int32Array(this.planner.view.buffer, at, elements.length).set(elements);
  }

  /** Plans the call. Gives the address of its record, which is valid until the next call. */
  update(): Address {
    return this.planner.call((e) => e.nibble_session_update(this.session));
  }

  /** The error that a shader reported. */
  fault(node: number, position: number, value: number, site: number): NibbleError {
    const { planner } = this;
    return planner.error(planner.call((e) => e.nibble_session_fault(this.session, node, position, value, site)));
  }

  /** The error for a bad element of a graph input. */
  badElement(input: number, { kind, position, value }: BadElement): NibbleError {
    const { planner } = this;
    const { word, integer } = numberOf(value);
    return planner.withTexts([word], ([text]) => {
      const at = planner.scratch;
      wire.writeBadElement(planner.view, at, {
        kind,
        position,
        hasValue: integer !== undefined,
        value: integer ?? 0n,
        word: text!.at,
        wordBytes: text!.bytes,
      });
      return planner.error(planner.call((e) => e.nibble_session_bad_element(this.session, input, at)));
    });
  }
}
