// Runs everywhere.mjs as a program: in Deno and Bun.
import * as client from '../dist/index.js'
import { everywhere } from './everywhere.mjs'

const [baseUrl, apiKey] = globalThis.Deno?.args ?? process.argv.slice(2)
console.log(`${await everywhere(client, { baseUrl, apiKey })} things held`)
