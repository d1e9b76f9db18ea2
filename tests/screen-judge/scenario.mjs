// Runs scenarios in xterm.js and in the emulator.
import { difference } from './compare.mjs'
import { Emulator } from './screen.mjs'
import { Xterm } from './xterm.mjs'

const SHOWN = 10

/// Which lines of a dump are about state that no repaint carries. SPECIFICATION.md lists that state.
const NOT_CARRIED = { pen: 'pen', charset: 'charsets', join: 'join', margin: 'cursor' }

/// State of a viewer that a repaint replaces, with an unfinished sequence.
const OLD_STATE = Buffer.from('\x18\x1b[20hold\n\n\n\x1b7\x1b[2;3r\x1b[?1049h\x1b[1;31;4m\x1b]8;;http://old/\x07old\x1b(0\x0e\x1b[3g\x1b[4h\x1b[?6;12;45;1003;1006;2004h\x1b[?7;25l\x1b[5 q\x1b]0;old\x07漢\x1b]0;unfinished')

export class Comparison {
  constructor(program) {
    this.emulator = new Emulator(program)
    this.count = 0
    this.failures = 0
    this.excluded = new Map()
  }

  close() { this.emulator.close() }

  report() {
    for (const [reason, count] of this.excluded) console.log(`not compared or not fully: ${count} × ${reason}`)
    console.log(` ${this.count - this.failures} pass\n ${this.failures} fail`)
  }

  exclude(reason) { this.excluded.set(reason, (this.excluded.get(reason) ?? 0) + 1) }

  fail(name, what, steps, repaint) {
    this.failures++
    if (this.failures > SHOWN) return
    console.log(`FAIL ${name}: ${what}\n    after ${JSON.stringify(steps.map(String)).slice(-2000)}`)
    if (repaint) console.log(`    repaint ${JSON.stringify(String(repaint)).slice(0, 4000)}`)
  }

  /// Runs steps (bytes, or `[cols, rows]`). Then our state, our answers and our repaint must equal those of xterm.js, and a
  /// viewer that starts with the repaint must continue like one that has seen everything.
  async compare(name, size, before, after) {
    const judge = new Xterm(...size)
    try {
      this.emulator.create(...size)
      for (const step of before) if (!this.apply(judge, step)) return
      this.count++
      const expected = judge.dump()
      const odd = await this.compareState(name, expected, judge, before)
      if (!odd) return
      const repaint = await this.compareRepaint(name, expected, judge, odd, before)
      if (!repaint || after === undefined || odd.length) return
      const later = this.continued(judge, size, before, after, repaint)
      if (later) this.fail(name, `output after the repaint: ${later}`, [...before, after], repaint)
    } catch (error) {
      this.excludeThrown(error)
    } finally {
      judge.dispose()
    }
  }

  /// The difference between a viewer that has seen everything and one that has seen the repaint, after further output.
  continued(judge, size, before, after, repaint) {
    const [whole, viewer] = [new Xterm(...size), judge.successor()]
    try {
      // In one write with what came before: xterm.js loses characters that are cut between writes.
      const last = before[before.length - 1]
      for (const step of before.slice(0, -1)) Array.isArray(step) ? whole.resize(...step) : whole.write(step)
      if (Array.isArray(last)) whole.resize(...last)
      whole.write(Array.isArray(last) ? after : Buffer.concat([last, after]))
      viewer.write(Buffer.concat([repaint, after]))
      return difference(whole.dump(), viewer.dump())
    } finally {
      whole.dispose()
      viewer.dispose()
    }
  }

  /// Follows a recording, and compares at `cuts` positions. Each repaint's viewer must be equal at the next position too.
  async follow(name, steps, cuts) {
    const size = [...steps[0], 1000]
    let judge = new Xterm(...size)
    const total = steps.reduce((sum, step) => sum + (Array.isArray(step) ? 0 : step.length), 0)
    const distance = Math.ceil(total / cuts)
    let viewer
    try {
      this.emulator.create(...size)
      for (const step of steps.slice(1)) {
        if (Array.isArray(step)) {
          if (!this.apply(judge, step)) {
            // Continue with an xterm.js that has all lines.
            this.exclude(`the size of ${name} at ${step}`)
            judge.dispose()
            judge = new Xterm(...step, size[2])
            judge.write(await this.emulator.repaint())
          }
          viewer?.dispose()
          viewer = undefined
        }
        for (const part of Array.isArray(step) ? [Buffer.alloc(0)] : parts(step, distance)) {
          judge.write(part)
          this.emulator.feed(part)
          viewer?.write(part)
          this.count++
          const expected = judge.dump()
          const later = viewer && difference(expected, viewer.dump())
          if (later) this.fail(name, `output after the repaint: ${later}`, [part])
          const odd = await this.compareState(name, expected, judge, [part])
          if (!odd) return
          viewer?.dispose()
          viewer = undefined
          const repaint = await this.compareRepaint(name, expected, judge, odd, [part])
          if (!repaint) continue
          if (odd.length === 0) {
            viewer = judge.successor()
            viewer.write(repaint)
          }
        }
      }
    } catch (error) {
      this.excludeThrown(error)
    } finally {
      viewer?.dispose()
      judge.dispose()
    }
  }

  /// Returns whether xterm.js is still sound.
  apply(judge, step) {
    if (!Array.isArray(step)) {
      judge.write(step)
      this.emulator.feed(step)
      return true
    }
    judge.resize(...step)
    this.emulator.resize(...step)
    if (judge.isBroken()) this.exclude('xterm.js lost lines in a change of the size')
    return !judge.isBroken()
  }

  /// Returns what a repaint of our state cannot carry, or nothing after a failure.
  async compareState(name, expected, judge, steps) {
    const state = await this.emulator.dump()
    const own = difference(expected, state, ['odd'])
    if (own) return this.fail(name, `our state: ${own}`, steps)
    const replies = await this.emulator.replies()
    // Colours are known only to the part of xterm.js that runs in a browser.
    if (replies.replace(/\x1b\](?:4;\d+|1[012]);rgb:[^\x1b]*\x1b\\/g, '') !== judge.takeReplies()) return this.fail(name, `our replies: ${JSON.stringify(replies)}`, steps)
    const odd = state.find(line => line.startsWith('odd ')).split(' ').slice(1).filter(Boolean)
    for (const word of odd) this.exclude(`state that no repaint carries: ${word}`)
    return odd
  }

  /// Returns the repaint, or nothing after a failure.
  async compareRepaint(name, expected, judge, odd, steps) {
    if (odd.includes('cells')) return
    const repaint = await this.emulator.repaint()
    const viewer = judge.successor()
    try {
      // Whatever the viewer has shown before, a second repaint included.
      // (Titles that it has saved stay below those that the repaint saves.)
      const first = expected.some(line => /^(title|icon) .*"\]$/.test(line)) ? [] : [repaint, OLD_STATE]
      viewer.write(Buffer.concat([OLD_STATE, ...first, repaint]))
      const shown = difference(expected, viewer.dump(), ['odd', ...odd.map(word => NOT_CARRIED[word]).filter(Boolean)])
      if (shown) return this.fail(name, `repaint: ${shown}`, steps, repaint)
      const replies = viewer.takeReplies()
      if (replies) return this.fail(name, `the viewer answers a repaint: ${JSON.stringify(replies)}`, steps, repaint)
      return repaint
    } finally {
      viewer.dispose()
    }
  }

  excludeThrown(error) {
    if (error === this.emulator.ended) throw error
    this.exclude('xterm.js threw an error')
  }
}

/// Parts of about this length that do not cut characters.
function* parts(bytes, length) {
  for (let start = 0; start < bytes.length;) {
    let end = Math.min(start + length, bytes.length)
    while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) end++
    yield bytes.subarray(start, end)
    start = end
  }
}
