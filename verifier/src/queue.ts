/** First in, first out. */
export class Queue<T> {
  private items: T[] = [];
  private head = 0;

  push(item: T): void {
    this.items.push(item);
  }

  peek(): T | undefined {
    return this.items[this.head];
  }

  shift(): void {
    (this.items as (T | undefined)[])[this.head++] = undefined;
    if (this.head > 4096 && this.head * 2 > this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
  }

  map(f: (item: T) => T): void {
    for (let i = this.head; i < this.items.length; i++) this.items[i] = f(this.items[i]!);
  }

  forEach(f: (item: T) => void): void {
    for (let i = this.head; i < this.items.length; i++) f(this.items[i]!);
  }
}

/** Smallest first. */
export class Heap<T> {
  private items: T[] = [];

  constructor(private readonly less: (a: T, b: T) => boolean) {}

  peek(): T | undefined {
    return this.items[0];
  }

  push(item: T): void {
    const { items } = this;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const up = (at - 1) >> 1;
      if (!this.less(item, items[up]!)) break;
      items[at] = items[up]!;
      at = up;
    }
    items[at] = item;
  }

  pop(): void {
    const { items } = this;
    const last = items.pop();
    if (last === undefined || items.length === 0) return;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      if (down >= items.length) break;
      if (down + 1 < items.length && this.less(items[down + 1]!, items[down]!)) down++;
      if (!this.less(items[down]!, last)) break;
      items[at] = items[down]!;
      at = down;
    }
    items[at] = last;
  }
}
