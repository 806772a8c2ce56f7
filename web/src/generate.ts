// Text in, text out, as it is generated. The second entry of the package: "nibble/generate".

import type { LanguageModel as Model, LanguageModelLoader } from "./generate_types.js";
import { loadLanguageModel } from "./generate/language_model.js";

export type * from "./generate_types.js";
export type LanguageModel = Model;
export const LanguageModel: LanguageModelLoader = { load: loadLanguageModel };
