// Runs the stand-in for Stripe's servers as a separate process, and a quire that takes payments through it.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after } from 'node:test'
import { root, suite } from './harness.mjs'
import { within } from './within.mjs'

/** A port that nothing listens on, below those that systems give to outgoing connections. */
async function freePort() {
  for (;;) {
    const port = 10000 + randomInt(22768)
    const server = createServer()
    const free = await new Promise((resolve, reject) => {
      server.once('error', (error) => (error.code === 'EADDRINUSE' ? resolve(false) : reject(error)))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!free) continue
    await new Promise((closed) => server.close(closed))
    return port
  }
}

/** Starts the stand-in, which posts its webhooks to endpoint, and returns its address. */
async function standin(endpoint) {
  const process = spawn(join(root, 'bin/quire-standin'), ['-endpoint', endpoint], { stdio: ['ignore', 'pipe', 'inherit'] })
  after(() => process.kill())
  return within(30_000, new Promise((resolve, reject) => {
    let output = ''
    process.once('error', reject)
    process.once('close', (code) => reject(new Error(`the stand-in ended with ${code}`)))
    process.stdout.setEncoding('utf8').on('data', (chunk) => {
      output += chunk
      if (output.includes('\n')) resolve(output.trim())
    })
  }), 'the stand-in listens')
}

/**
 * A suite whose quire takes payments: as suite(), with site.provider, the address of the stand-in. fees are the monthly fees of plans
 * in dollars, by their names. They are in force.
 */
export async function paidSuite(fees, settings = {}) {
  const port = await freePort() // the stand-in has to know it, and quire has to know the stand-in
  const provider = await standin(`http://127.0.0.1:${port}/payments/webhook`)
  const site = await suite({
    QUIRE_LISTEN: `127.0.0.1:${port}`, QUIRE_STRIPE_KEY: 'sk_test_standin', QUIRE_STRIPE_WEBHOOK_SECRET: 'whsec_stand_in', QUIRE_STRIPE_URL: provider, ...settings,
  })
  site.provider = provider
  site.others.push(provider)
  const { id, effectiveAt, ...book } = (await site.api().admin('GET', '/api/admin/prices')).current
  for (const plan of book.plans) plan.monthlyFee = fees[plan.name] ?? plan.monthlyFee
  const from = new Date(Date.now() + 90_000).toISOString().replace(/\.\d+/, '') // a book is applied a minute ahead or more
  await site.api().admin('POST', '/api/admin/prices', { book, effectiveAt: from })
  await site.quire.travel(120_000)
  return site
}
