// The messages of a conversation on the page. A screen reader hears an answer when it is finished, not each piece of it.

import { make } from "./page.js";

export class Conversation {
  /** `end` comes after the messages: whoever sees it is taken along as they grow. */
  constructor(
    private readonly log: HTMLElement,
    private readonly end: HTMLElement,
  ) {}

  /** What the reader wrote, and so need not hear. */
  addOwn(text: string): HTMLElement {
    const message = makeMessage("You", "own", text);
    message.setAttribute("aria-live", "off");
    this.append(message);
    return message;
  }

  /** An answer that is about to be written. */
  begin(who: string): Writing {
    const writing = new Writing(who, this.end);
    this.append(writing.element);
    return writing;
  }

  clear(): void {
    this.log.replaceChildren();
  }

  private append(message: HTMLElement): void {
    this.log.append(message);
    this.end.scrollIntoView({ block: "end" });
  }
}

/** An answer as it is written. */
export class Writing {
  readonly element: HTMLElement;
  private readonly text = document.createTextNode("");

  constructor(
    private readonly who: string,
    private readonly end: HTMLElement,
  ) {
    this.element = makeMessage(who, "answer", "");
    this.element.setAttribute("aria-live", "off");
    this.element.setAttribute("aria-busy", "true");
    this.element.querySelector(".text")!.append(this.text);
  }

  add(piece: string): void {
    this.grow(() => this.text.appendData(piece));
  }

  /** Puts a new element in its place, which is announced; `note` says how it ended, if that is not plain. */
  finish(note: string): void {
    const finished = makeMessage(this.who, "answer", this.text.data);
    if (note !== "") {
      const line = make("p", note);
      line.className = "note";
      finished.append(line);
    }
    this.grow(() => this.element.replaceWith(finished));
  }

  remove(): void {
    this.element.remove();
  }

  private grow(change: () => void): void {
    const isSeen = this.end.getBoundingClientRect().top < innerHeight;
    change();
    if (isSeen) this.end.scrollIntoView({ block: "end" });
  }
}

function makeMessage(who: string, kind: string, text: string): HTMLElement {
  const message = make("article", "");
  message.className = `message ${kind}`;
  const body = make("p", text);
  body.className = "text";
  message.append(make("h2", who), body);
  return message;
}
