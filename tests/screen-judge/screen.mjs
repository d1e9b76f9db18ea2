// Our side: the example `judge` of crates/screen, driven over its standard input and output.
import { spawn } from 'node:child_process'

export class Emulator {
  constructor(program) {
    this.process = spawn(program, [], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.waiting = []
    this.rest = ''
    this.ended = undefined
    this.process.stdout.setEncoding('latin1')
    this.process.stdout.on('data', data => {
      const lines = (this.rest + data).split('\n')
      this.rest = lines.pop()
      for (const line of lines) this.waiting.shift()?.resolve(Buffer.from(line, 'hex'))
    })
    this.process.on('close', code => {
      this.ended = new Error(`the emulator ended with code ${code}`)
      for (const { reject } of this.waiting.splice(0)) reject(this.ended)
    })
  }

  create(cols, rows, scrollback) { this.send(`new ${cols} ${rows} ${scrollback}`) }
  resize(cols, rows) { this.send(`resize ${cols} ${rows}`) }
  feed(bytes) { this.send(`feed ${Buffer.from(bytes).toString('hex')}`) }
  async dump() { return (await this.ask('dump')).toString().trimEnd().split('\n') }
  repaint() { return this.ask('repaint') }
  async replies() { return (await this.ask('replies')).toString() }
  close() { this.process.stdin.end() }

  send(command) {
    this.process.stdin.write(command + '\n')
  }

  ask(command) {
    if (this.ended) return Promise.reject(this.ended)
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject })
      this.send(command)
    })
  }
}
