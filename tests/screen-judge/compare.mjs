// Comparison of states.

/// The first difference of two dumps, or undefined. `skip` lists the lines that are not compared, by their first word.
export function difference(expected, actual, skip = []) {
  const length = Math.max(expected.length, actual.length)
  for (let at = 0; at < length; at++) {
    const [a, b] = [expected[at], actual[at]]
    if (a === b || sameApartFromLostLinks(a, b)) continue
    if (skip.some(word => a?.startsWith(word + ' ') && b?.startsWith(word + ' '))) continue
    return `line ${at}:\n    expected ${a}\n    actual   ${b}`
  }
  return undefined
}

// A link that xterm.js has forgotten is equal to any link, and to none.
function sameApartFromLostLinks(a, b) {
  if (a === undefined || b === undefined || !(a.includes(',L?') || b.includes(',L?'))) return false
  const [cells, others] = [a.split(' '), b.split(' ')]
  return cells.length === others.length && cells.every((cell, at) => {
    const other = others[at]
    if (cell === other) return true
    if (!cell.endsWith(',L?') && !other.endsWith(',L?')) return false
    return withoutLink(cell) === withoutLink(other)
  })
}

function withoutLink(cell) {
  // A link is shown with a dashed underline.
  return cell.replace(/,L.*$/, '').replace(/,u\d/, ',u')
}
