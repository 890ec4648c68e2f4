// What holds in every runtime. It uses nothing of any of them: runtimes.test.mjs runs it in each.

/** Calls a quire by every way in which bytes go, and throws where something is not as it should be. It returns how many things were. */
export async function everywhere({ Quire, ApiError, NotFoundError, verifyWebhook }, options) {
  const quire = new Quire(options)
  let held = 0
  const equal = (got, want, what) => {
    if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
    held++
  }
  const failure = async (promise) => {
    try {
      await promise
    } catch (error) {
      return error
    }
    throw new Error('a call that must fail has not')
  }

  const made = await quire.pastes.create({ content: 'héllo', tags: ['everywhere'] })
  equal([made.version, made.chargeSource, made.requestId.length], [1, 'quota', 36], 'a paste that was made')
  equal((await quire.pastes.get(made.id)).content, 'héllo', 'its content')
  equal((await quire.pastes.update(made.id, { title: 'later' }, { ifVersion: 1 })).version, 2, 'its next version')
  equal((await failure(quire.pastes.get(made.id, { ifNotVersion: 2 }))).name, 'NotModifiedError', 'a version that is known')
  await quire.pastes.create({ content: 'two', title: 'second', tags: ['everywhere'] })
  const titles = []
  for await (const { title } of quire.pastes.list({ limit: 1, tag: 'everywhere' })) titles.push(title)
  equal(titles, ['second', 'later'], 'a list over its pages')
  await quire.pastes.delete(made.id)
  const gone = await failure(quire.pastes.get(made.id))
  equal([gone instanceof NotFoundError, gone instanceof ApiError, gone.code], [true, true, 'not_found'], 'a paste that is gone')

  const bytes = crypto.getRandomValues(new Uint8Array(60_000))
  for (const content of [bytes, new Blob([bytes]), new Blob([bytes]).stream(), () => new Blob([bytes]).stream()]) {
    let up = 0
    let down = 0
    const file = await quire.files.upload({ name: 'a ü.bin', content }, { onProgress: (done) => { up = done } })
    equal([file.size, up], [bytes.length, bytes.length], 'an upload and its progress')
    const download = await quire.files.download(file.id, { onProgress: (done) => { down = done } })
    equal([download.name, download.size, download.sha256, download.chargeSource], ['a ü.bin', bytes.length, file.sha256, 'quota'], 'a download')
    equal(Array.from(await download.bytes()).join(), Array.from(bytes).join(), 'its bytes')
    equal(down, bytes.length, 'its progress')
  }

  const controller = new AbortController()
  const reason = new Error('changed my mind')
  controller.abort(reason)
  equal(await failure(quire.pastes.create({ content: 'x' }, { signal: controller.signal })) === reason, true, 'the reason of an abort')
  equal((await failure(new Quire({ ...options, baseUrl: 'http://127.0.0.1:9', retries: 1 }).pastes.create({ content: 'x' }))).name, 'ConnectionError', 'nobody listens')

  const signed = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek', 'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  }
  const event = await verifyWebhook(signed, '{"test": 2432232314}', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', { toleranceSeconds: Infinity })
  equal(event, { test: 2432232314 }, 'a webhook')
  return held
}
