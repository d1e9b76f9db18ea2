// Screens of xterm.js, and their comparison cell by cell.

import xterm from '@xterm/headless';

const SCROLLBACK_LINES = 1_000;

export function newTerminal({ cols, rows }) {
  return new xterm.Terminal({ cols, rows, scrollback: SCROLLBACK_LINES, allowProposedApi: true, windowsPty: undefined });
}

export function write(terminal, bytes) {
  return new Promise((resolve) => terminal.write(bytes, resolve));
}

/** All that can be seen of a terminal, as text: one line per row, and one for the rest. */
export function describe(terminal) {
  const buffer = terminal.buffer.active;
  const lines = [];
  const cell = buffer.getNullCell();
  for (let row = 0; row < buffer.length; row++) {
    const line = buffer.getLine(row);
    const cells = [];
    for (let column = 0; column < terminal.cols; column++) {
      line.getCell(column, cell);
      const flags = [
        cell.isBold(), cell.isItalic(), cell.isDim(), cell.isUnderline(), cell.isBlink(), cell.isInverse(), cell.isInvisible(),
        cell.isStrikethrough(), cell.isOverline(),
      ].map((flag) => (flag ? 1 : 0)).join('');
      // An empty cell and one with a space look the same.
      const text = cell.getChars() || (cell.getWidth() ? ' ' : '');
      cells.push(`${text}|${cell.getWidth()}|${cell.getFgColorMode()}:${cell.getFgColor()}|${cell.getBgColorMode()}:${cell.getBgColor()}|${flags}`);
    }
    lines.push(`${line.isWrapped ? 'wrapped ' : ''}${cells.join(' ')}`);
  }
  const rest = { type: buffer.type, x: buffer.cursorX, y: buffer.cursorY, base: buffer.baseY, length: buffer.length, modes: terminal.modes };
  lines.push(JSON.stringify(rest));
  return lines;
}

export function isBlank(terminal) {
  const buffer = terminal.buffer.active;
  for (let row = 0; row < buffer.length; row++) if (buffer.getLine(row).translateToString(true) !== '') return false;
  return true;
}

/** The first difference of two terminals, or undefined. */
export function difference(whole, repainted) {
  const [a, b] = [describe(whole), describe(repainted)];
  if (a.length !== b.length) return `${a.length - 1} rows instead of ${b.length - 1}: ${a.at(-1)} and ${b.at(-1)}`;
  const row = a.findIndex((line, index) => line !== b[index]);
  if (row < 0) return undefined;
  const plain = (line) => line.split(' ').map((cell) => cell.split('|')[0]).join('');
  return `row ${row}:\n  all bytes: ${plain(a[row])}\n  repaint:   ${plain(b[row])}\n${a[row].slice(0, 2000)}\n${b[row].slice(0, 2000)}`;
}
