// The corpus: files of scenarios, with escapes for control characters.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const SIMPLE = { e: 0x1b, a: 7, b: 8, t: 9, n: 10, r: 13, '\\': 0x5c }

/// The scenarios of a folder: `{name, steps}`. A step is bytes or `[cols, rows]`.
export function* corpus(folder) {
  for (const file of readdirSync(folder).sort()) {
    const topic = file.replace(/\.txt$/, '')
    let name
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n')) {
      if (line.startsWith('-- ')) name = `${topic}: ${line.slice(3)}`
      else if (line && !line.startsWith('# ')) yield { name, steps: steps(line) }
    }
  }
}

function steps(line) {
  return line.split(/(@resize \d+ \d+)/).filter(Boolean).map(part => {
    const size = /^@resize (\d+) (\d+)$/.exec(part)
    return size ? [Number(size[1]), Number(size[2])] : decode(part)
  })
}

function decode(text) {
  const pattern = /\\(?:([eabtnr\\])|x([0-9a-f]{2})|u\{([0-9a-f]+)\})|[^\\]+/g
  return Buffer.concat([...text.matchAll(pattern)].map(([part, simple, byte, code]) => {
    if (simple) return Buffer.from([SIMPLE[simple]])
    if (byte) return Buffer.from([parseInt(byte, 16)])
    return Buffer.from(code ? String.fromCodePoint(parseInt(code, 16)) : part)
  }))
}
