// Compares the emulator with xterm.js. See README.md.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { difference } from './compare.mjs'
import { Random } from './random.mjs'
import { Emulator } from './screen.mjs'
import { Xterm } from './xterm.mjs'

const [program, seconds = '20', firstSeed = '1'] = process.argv.slice(2)
const emulator = new Emulator(program)
const failures = []
let comparisons = 0

function fail(name, what, steps) {
  failures.push(name)
  if (failures.length <= Number(process.env.SHOW ?? 10)) console.log(`FAIL ${name}: ${what}\n    after ${JSON.stringify(steps.map(String))}`)
}

/// Runs one scenario: steps are bytes or `[cols, rows]`. Compares our state and our repaint with xterm.js.
async function compare(name, size, before, after) {
  const judge = new Xterm(...size)
  try {
    emulator.create(...size)
    let [cols, rows] = size
    for (const step of before) {
      if (Array.isArray(step)) {
        [cols, rows] = step
        judge.resize(...step)
        emulator.resize(...step)
        if (judge.isBroken()) {
          broken++
          return
        }
      } else {
        judge.write(step)
        emulator.feed(step)
      }
    }
    comparisons++
    const expected = judge.dump()
    const state = await emulator.dump()
    // What no repaint carries: SPECIFICATION.md lists it.
    const odd = state.find(line => line.startsWith('odd ')).split(' ').slice(1).filter(Boolean)
    const skip = ['odd']
    if (odd.includes('pen')) skip.push('pen')
    if (odd.includes('charset')) skip.push('charsets')
    if (odd.includes('join')) skip.push('join')
    if (odd.includes('margin')) skip.push('cursor')
    for (const word of odd) oddities.set(word, (oddities.get(word) ?? 0) + 1)
    const own = difference(expected, state, ['odd'])
    if (own) return fail(name, `our state differs: ${own}`, before)
    if ((await emulator.replies()) !== judge.replies) return fail(name, 'our replies differ', before)

    if (odd.includes('cells')) return
    const repaint = await emulator.repaint()
    const viewer = new Xterm(cols, rows, size[2])
    try {
      viewer.write(repaint)
      if (viewer.replies) return fail(name, `the viewer answers ${JSON.stringify(viewer.replies)}`, before)
      const shown = difference(expected, viewer.dump(), skip)
      if (shown) return fail(name, `the repaint differs: ${shown}\n    repaint ${JSON.stringify(String(repaint))}`, before)
      if (after === undefined || odd.length) return
      judge.write(after)
      // In one write with the rest: xterm.js loses characters that are cut between writes.
      const second = new Xterm(cols, rows, size[2])
      second.write(Buffer.concat([repaint, after]))
      const later = difference(judge.dump(), second.dump())
      second.dispose()
      if (later) return fail(name, `after the repaint, further output differs: ${later}\n    repaint ${JSON.stringify(String(repaint))}`, [...before, after])
    } finally {
      viewer.dispose()
    }
  } catch (error) {
    // xterm.js throws on some sequences.
    if (error === emulator.ended) {
      console.log(`${name}: ${JSON.stringify(size)} ${JSON.stringify(before.map(String))}`)
      throw error
    }
    if (process.env.THROWS) console.log(name, error)
    throws++
  } finally {
    judge.dispose()
  }
}
let throws = 0
let broken = 0
const oddities = new Map()

async function random(deadline, seed) {
  for (; Date.now() < deadline && failures.length < 50; seed++) {
    const random = new Random(seed)
    const size = [4 + random.below(12), 1 + random.below(6), random.below(6)]
    await compare(`seed ${seed}`, size, [random.output(1 + random.below(40))], random.output(random.below(20)))
    if (process.env.RESIZE) {
      const random = new Random(seed, { combining: false })
      const size = [4 + random.below(12), 1 + random.below(6), random.below(6)]
      const steps = [random.output(1 + random.below(40))]
      for (let count = 1 + random.below(3); count > 0; count--) steps.push([4 + random.below(12), 1 + random.below(6)], random.output(random.below(10)))
      await compare(`resized seed ${seed}`, size, steps, random.output(random.below(20)))
    }
  }
  return seed
}

const last = await random(Date.now() + Number(seconds) * 1000, Number(firstSeed))
console.log('not carried by repaints:', Object.fromEntries(oddities))
console.log(`${comparisons} comparisons, ${failures.length} failures, xterm.js threw ${throws} times, lost rows ${broken} times, last seed ${last}`)
emulator.close()
process.exitCode = failures.length ? 1 : 0
