// Compares the emulator with xterm.js. Usage: node judge.mjs EMULATOR CORPUS RECORDINGS. See README.md.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { corpus } from './corpus.mjs'
import { Random } from './random.mjs'
import { Comparison } from './scenario.mjs'

const [emulator, corpusFolder, recordings] = process.argv.slice(2)
// More for a longer run: SCREEN_JUDGE_CUTS=1000 SCREEN_JUDGE_SEEDS=100000.
const CUTS = Number(process.env.SCREEN_JUDGE_CUTS ?? 20)
const SEEDS = Number(process.env.SCREEN_JUDGE_SEEDS ?? 500)
const FIRST_SEED = Number(process.env.SCREEN_JUDGE_FIRST_SEED ?? 1)
const CORPUS_SIZE = [40, 8, 20]
const comparison = new Comparison(emulator)

/// Up to CUTS positions in a text of this length, both ends included.
function positions(length) {
  const count = Math.min(length, CUTS)
  return Array.from({ length: count + 1 }, (_, at) => count ? Math.round(at * length / count) : 0)
}

async function runCorpus() {
  for (const { name, steps } of corpus(corpusFolder)) {
    for (let count = 1; count < steps.length; count++) await comparison.compare(name, CORPUS_SIZE, steps.slice(0, count))
    const before = steps.slice(0, -1)
    const last = steps[steps.length - 1]
    if (Array.isArray(last)) await comparison.compare(name, CORPUS_SIZE, steps)
    else for (const cut of positions(last.length)) await comparison.compare(`${name}, cut at ${cut}`, CORPUS_SIZE, [...before, last.subarray(0, cut)], last.subarray(cut))
  }
}

async function runRecordings() {
  for (const file of readdirSync(recordings).sort()) {
    const lines = readFileSync(join(recordings, file), 'utf8').trim().split('\n').map(line => JSON.parse(line))
    await comparison.follow(file, lines.map(line => line.size ?? Buffer.from(line.output, 'hex')), 4 * CUTS)
  }
}

async function runRandom() {
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
    const random = new Random(seed)
    await comparison.compare(`seed ${seed}`, random.size(), [random.output(1 + random.below(40))], random.output(random.below(20)))
    const resized = new Random(seed, { combining: false })
    await comparison.compare(`seed ${seed} with resizes`, resized.size(), resized.steps(), resized.output(resized.below(20)))
  }
}

const start = Date.now()
for (const [name, run] of [['corpus', runCorpus], ['programs', runRecordings], ['random output', runRandom]]) {
  const before = comparison.count
  await run()
  console.log(`${name}: ${comparison.count - before} comparisons, ${Math.round((Date.now() - start) / 1000)} s`)
}
comparison.close()
comparison.report()
process.exitCode = comparison.failures ? 1 : 0
