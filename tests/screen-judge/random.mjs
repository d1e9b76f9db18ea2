// Random output of programs, from a seed.

/// A generator of numbers: mulberry32.
export function generator(seed) {
  let state = seed >>> 0
  return () => {
    state = state + 0x6d2b79f5 >>> 0
    let value = Math.imul(state ^ state >>> 15, state | 1)
    value ^= value + Math.imul(value ^ value >>> 7, value | 61)
    return ((value ^ value >>> 14) >>> 0) / 2 ** 32
  }
}

const TEXTS = [
  'a', 'word ', 'hello world', '漢', '漢字', 'あ', 'é', 'e\u0301', '\u0301', '👨\u200d👩\u200d👧', '─│', 'x\u200b', '   ', '\r\n', '\r\n', '\n',
  '\r', '\t', '\b', '\x0e', '\x0f', '\x84', '\x85', '\x88', '\x07', '\x7f', 'lqk', '#',
]
const FINALS = [...'@ABCDEFGHIJKLMPSTXZ`abdefg']
const ESCAPES = ['7', '8', '7', '8', 'D', 'E', 'H', 'M', '=', '>', 'n', 'o', '|', '}', '~', '(0', '(B', ')0', '*A', '+K', '#8', '%G', '(4']
const MODES = [1, 2, 6, 7, 7, 9, 12, 25, 45, 47, 66, 1000, 1002, 1003, 1004, 1006, 1016, 1047, 1048, 1049, 2004, 2026]
const GRAPHICS = [
  '', '0', '1', '2', '3', '4', '4:3', '4:0', '4:', '5', '7', '8', '9', '21', '22', '24', '27', '31', '42', '38;5;200', '48;5;17',
  '38;2;1;2;3', '48:2::4:5:6', '48:2:4:5:6', '38:5:7', '53', '55', '58:5:9', '58;2;7;8;9', '59', '97', '101', '39', '49', '1;31;44', '38;5',
]
const COMMANDS = [
  '0;title', '2;other title', '1;icon', '8;;http://a/', '8;id=x;http://b/', '8;;', '4;1;#123456', '10;rgb:1/2/3', '11;#fff', '104', '104;1', '110',
  '52;c;YQ==', '7;file:///', '133;A', '8;;http://a/?x;y',
]
const OTHERS = [
  '\x1b[0"q', '\x1b[1"q', '\x1b[?J', '\x1b[?1J', '\x1b[?2J', '\x1b[?K', '\x1b[?1K', '\x1b[?2K', "\x1b[2'}", "\x1b[2'~", '\x1b[2 @', '\x1b[2 A', '\x1b[!p',
  '\x1b[3 q', '\x1b[ q', '\x1b[6 q', '\x1b[4h', '\x1b[4l', '\x1b[20h', '\x1b[20l', '\x1b[r', '\x1b[2;4r', '\x1b[3;5r', '\x1b[1;3r', '\x1b[s', '\x1b[u',
  '\x1bPq#0;2;0;0;0~-\x1b\\', '\x1b_Ga=1\x1b\\', '\x1b^pm\x1b\\', '\x1bXsos\x1b\\', '\x1b[22t', '\x1b[23t', '\x1b[22;2t', '\x1b[c', '\x1b[>c', '\x1b[6n', '\x1b[5n',
  '\x1b[?6n', '\x1b[?25$p', '\x1b[4$p', '\x1bP$qr\x1b\\', '\x1bP$qm\x1b\\', '\x1b[3J', '\x1b[H', '\x1b[2J', '\x1b[K', '\x1bc', '\x1b[99;99H', '\x1b[1;7H', '\x1b[8G',
]

export class Random {
  constructor(seed, { combining = true } = {}) {
    this.next = generator(seed)
    this.texts = combining ? TEXTS : TEXTS.filter(text => !/[\u0301\u200d\u200b]/.test(text))
  }

  below(limit) { return Math.floor(this.next() * limit) }
  choose(list) { return list[this.below(list.length)] }

  size() { return [4 + this.below(12), 1 + this.below(6), this.below(6)] }

  /// Output and changes of the size.
  steps() {
    const steps = [this.output(1 + this.below(40))]
    for (let count = 1 + this.below(3); count > 0; count--) steps.push(this.size().slice(0, 2), this.output(this.below(10)))
    return steps
  }

  piece() {
    const kind = this.below(30)
    if (kind < 11) return this.choose(this.texts)
    if (kind < 16) return `\x1b[${this.params()}${this.choose(FINALS)}`
    if (kind < 18) return `\x1b${this.choose(ESCAPES)}`
    if (kind < 21) return `\x1b[?${this.choose(MODES)}${this.choose(['h', 'l'])}`
    if (kind < 25) return `\x1b[${this.choose(GRAPHICS)}m`
    if (kind < 27) return `\x1b]${this.choose(COMMANDS)}${this.choose(['\x07', '\x1b\\'])}`
    return this.choose(OTHERS)
  }

  params() {
    const number = () => this.choose(['', this.below(4), this.below(14)])
    return this.below(2) ? `${number()}` : `${number()};${number()}`
  }

  output(pieces) {
    let text = ''
    for (let at = 0; at < pieces; at++) text += this.piece()
    return Buffer.from(text)
  }
}
