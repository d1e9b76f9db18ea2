// The judge's side: xterm.js, and its state in the format of `Screen::dump`.
import headless from '@xterm/headless'

const COLOR_MASK = 0x3ffffff
const COLOR_KIND = 0x3000000
const COLOR_RGB = 0x3000000
const UNDERLINE = 0x10000000
const EXTENDED = 0x10000000

// Whether xterm.js has stored lines before the first one. They replace other lines.
let overwritten = false

function watchLines(list) {
  const prototype = Object.getPrototypeOf(list)
  if (prototype.watched) return
  prototype.watched = true
  const { set } = prototype
  prototype.set = function (index, value) {
    if (index < 0) overwritten = true
    return set.call(this, index, value)
  }
}

export class Xterm {
  constructor(cols, rows, scrollback) {
    this.terminal = new headless.Terminal({
      cols, rows, scrollback, allowProposedApi: true, logLevel: 'off',
      windowOptions: { pushTitle: true, popTitle: true },
    })
    this.core = this.terminal._core
    watchLines(this.core._bufferService.buffers.normal.lines)
    overwritten = false
    this.replies = ''
    this.colors = new Map()
    this.terminal.onData(data => { this.replies += data })
    this.core._inputHandler.onColor(events => events.forEach(event => this.changeColor(event)))
  }

  changeColor({ type, index, color }) {
    if (type === 1) this.colors.set(index, color)
    else if (type === 2 && index === undefined) for (let at = 0; at < 256; at++) this.colors.delete(at)
    else if (type === 2) this.colors.delete(index)
  }

  // One write, as one chunk: what xterm.js shows depends on where chunks end.
  write(bytes) {
    this.core.writeSync(bytes)
  }

  takeReplies() {
    const { replies } = this
    this.replies = ''
    return replies
  }

  // A fresh terminal of the same size.
  successor() {
    return new Xterm(this.terminal.cols, this.terminal.rows, this.core.optionsService.rawOptions.scrollback)
  }

  resize(cols, rows) {
    this.terminal.resize(cols, rows)
  }

  // Whether lines are missing or replaced by others, as after some changes of the size.
  isBroken() {
    const { buffers, rows } = this.core._bufferService
    return overwritten || [buffers.normal, buffers.active].some(buffer => buffer.lines.length < buffer.ybase + rows)
  }

  dispose() {
    this.terminal.dispose()
  }

  dump() {
    const { core } = this
    const input = core._inputHandler
    const service = core._bufferService
    const { cols, rows } = service
    const { active, normal, alt } = service.buffers
    const modes = core.coreService.decPrivateModes
    const options = core.optionsService.rawOptions
    const mouse = core.coreMouseService
    const lines = []
    lines.push(`size ${cols} ${rows}`)
    lines.push(`cursor ${active.x} ${active.y} ${!core.coreService.isCursorHidden}`)
    const flags = [
      modes.applicationCursorKeys, modes.applicationKeypad, modes.bracketedPasteMode, modes.sendFocus,
      modes.wraparound, modes.reverseWraparound, modes.origin, core.coreService.modes.insertMode, options.convertEol,
      modes.synchronizedOutput, options.cursorBlink, active === alt,
    ].map(flag => flag ? '1' : '0').join('')
    const style = modes.cursorStyle === undefined ? 'none' : `${modes.cursorStyle} ${modes.cursorBlink}`
    lines.push(`modes ${flags} ${mouse.activeProtocol} ${mouse.activeEncoding} cursor ${style}`)
    lines.push(`join ${input._parser.precedingJoinState >> 1 & 3}`)
    lines.push(`title ${text(input._windowTitle)} [${input._windowTitleStack.map(text).join(', ')}]`)
    lines.push(`icon ${text(input._iconName)} [${input._iconNameStack.map(text).join(', ')}]`)
    const sets = [0, 1, 2, 3].map(level => fingerprint(core._charsetService._charsets[level])).join(' ')
    lines.push(`charsets ${fingerprint(core._charsetService.charset)} ${core._charsetService.glevel} ${sets}`)
    lines.push(`pen ${this.attributes(input._curAttrData)}`)
    lines.push('odd ')
    const colors = [...this.colors].sort((a, b) => a[0] - b[0]).map(([index, rgb]) => `${index}=[${rgb.join(', ')}]`)
    lines.push(`colors ${colors.join(' ')}`)
    this.dumpBuffer('normal', normal, true, lines)
    this.dumpBuffer('alternate', alt, active === alt, lines)
    return lines
  }

  dumpBuffer(name, buffer, withLines, lines) {
    const { cols, rows } = this.core._bufferService
    const saved = buffer.savedCurAttrData
    const row = Math.min(Math.max(buffer.savedY - buffer.ybase, 0), rows - 1)
    const underlined = saved.fg & UNDERLINE ? 1 : 0
    lines.push(`${name} saved ${Math.min(buffer.savedX, cols - 1)} ${row} ${colors(saved.fg, saved.bg)} u${underlined} ${fingerprint(buffer.savedCharset)}`)
    if (!withLines) return
    let tabs = ''
    for (let column = 0; column < cols; column++) tabs += buffer.tabs[column] ? '1' : '0'
    // The alternate buffer has lines above the screen only by a fault of xterm.js.
    const first = name === 'normal' ? 0 : buffer.ybase
    lines.push(`${name} base ${buffer.ybase - first} region ${buffer.scrollTop} ${buffer.scrollBottom} tabs ${tabs}`)
    for (let at = first; at < buffer.lines.length; at++) lines.push(this.dumpLine(buffer.lines.get(at), cols))
  }

  dumpLine(line, cols) {
    if (!line) return 'missing line'
    const cells = []
    const cell = new this.core._inputHandler._activeBuffer._nullCell.constructor()
    let wide = false
    for (let at = 0; at < cols; at++) {
      line.loadCell(at, cell)
      // The first half decides how both look.
      if (wide && cell.content === 0) cell.fg = cell.bg = 0
      wide = cell.content >> 22 === 2
      cells.push(this.dumpCell(cell))
    }
    while (cells.length && cells[cells.length - 1] === '_') cells.pop()
    return [line.isWrapped ? 'W' : '.', ...cells].join(' ')
  }

  dumpCell(cell) {
    const width = cell.content >> 22
    if (cell.content === 1 << 22 && cell.fg === 0 && cell.bg === 0) return '_'
    let chars = cell.getChars()
    if (chars === ' ') chars = 'SP'
    return `${chars}/${width}/${this.attributes(cell)}`
  }

  attributes(data) {
    const { fg, bg, extended } = data
    let result = colors(fg, bg)
    const flagged = bg & EXTENDED
    const style = fg & UNDERLINE ? (flagged ? extended.underlineStyle : 1) : 0
    if (style) {
      const color = flagged ? extended.underlineColor : 0
      result += `,u${style}:${normalColor(color & COLOR_KIND ? color : 0).toString(16)}`
    }
    if (flagged && extended.urlId) {
      const link = this.core._oscLinkService.getLinkData(extended.urlId)
      // xterm.js forgets a link when the lines on which it was opened are erased.
      result += link ? `,L${link.id ?? ''}|${link.uri}` : ',L?'
    }
    return result
  }
}

function text(value) {
  // As Rust's {:?} for the titles of the corpus.
  return JSON.stringify(value)
}

function normalColor(value) {
  const color = value & COLOR_MASK
  const kind = color & COLOR_KIND
  return kind === 0 ? 0 : kind === COLOR_RGB ? color : color & 0x30000ff
}

function colors(fg, bg) {
  const normal = value => (normalColor(value) | value & ~COLOR_MASK) >>> 0
  const a = (normal(fg) & ~UNDERLINE) >>> 0
  const b = (normal(bg) & ~EXTENDED) >>> 0
  return a || b ? `${a.toString(16)}.${b.toString(16)}` : '-'
}

function fingerprint(charset) {
  if (!charset) return 'B'
  return [...'#@[\\]^_`{|}~a'].map(character => (charset[character] ?? character)[0]).join('')
}
