// Makes the calls of the scenarios that all clients pass: ../README.md has its protocol.
import { openAsBlob } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { ApiError, Quire } from './dist/index.js'

const quire = new Quire({ apiKey: process.env.QUIRE_API_KEY, baseUrl: process.env.QUIRE_URL })

/** The calls of pastes or quick pastes, whose names end so. */
const texts = (name, texts) => ({
  [`create${name}`]: (fields) => texts.create(fields),
  [`get${name}`]: ({ id }) => texts.get(id),
  [`update${name}`]: ({ id, title }) => texts.update(id, { title }),
  [`delete${name}`]: ({ id }) => texts.delete(id),
  [`list${name}s`]: async ({ q }) => {
    const ids = []
    for await (const { id } of texts.list({ q, limit: 2 })) ids.push(id)
    return { ids }
  },
})

const operations = {
  ...texts('Paste', quire.pastes),
  ...texts('QuickPaste', quire.quickPastes),
  uploadFile: async ({ name, path }) => quire.files.upload({ name, content: await openAsBlob(path) }),
  getFile: ({ id }) => quire.files.get(id),
  downloadFile: async ({ id, path }) => {
    const download = await quire.files.download(id)
    await writeFile(path, download.body)
    return { sha256: download.sha256 }
  },
  deleteFile: ({ id }) => quire.files.delete(id),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, args } = JSON.parse(line)
  let answer
  try {
    answer = { id, ok: true, result: await operations[op](args) }
  } catch (error) {
    const { code, status } = error instanceof ApiError ? error : {}
    answer = { id, ok: false, error: { code, status, message: `${error}` } }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
