import { ChecksumError, ConnectionError, QuireError } from './errors.js'
import type { List } from './list.js'
import { Sha256 } from './sha256.js'
import { listOf, segment } from './pastes.js'
import {
  chunksOf, metaOf, newIdempotencyKey, type Attempt, type Call, type CallOptions, type IdempotentOptions, type Meta, type Result, type Sendable,
  type Transport,
} from './transport.js'
import type { Deleted, FileFilter, FileHead, FileInfo, UploadedFile, Visibility } from './types.js'

/** Bytes of a file. A stream can be read only once, so its upload can't be retried; a function returns a stream per attempt. */
export type FileContent = Blob | ArrayBuffer | Uint8Array | string | ReadableStream<Uint8Array> | (() => ReadableStream<Uint8Array>)

/** Called with the number of bytes transferred, and the total if known. Starts over when an upload is retried. */
export type Progress = (done: number, total: number | undefined) => void

/** A file to upload. */
export interface NewFile {
  /** 1 to 255 characters without / and \. The name of a `File` by default. */
  name?: string | undefined
  /** 1 byte to 50 MB. */
  content: FileContent
  /** Defaults to the type of a `Blob`; otherwise the service detects it from the first bytes. */
  contentType?: string | undefined
  /** `unlisted` by default. */
  visibility?: Visibility | undefined
  /** In seconds, or `"10m"`, `"1h"`, `"7d"`, `"2w"`, `"1y"`, or `"never"`, the default. */
  expiresIn?: number | string | undefined
}

/** Options of a transfer. `timeoutMs` has no default: a transfer continues while bytes move. */
export interface TransferOptions extends IdempotentOptions {
  onProgress?: Progress | undefined
}

/** What to download. */
interface Source {
  id: string
  name: string
  size: number
  contentType: string
  sha256: string
}

const path = '/api/dev/files'

/** Files of the account. */
export class Files {
  readonly #transport: Transport

  /** @internal Created by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Uploads a file as a stream, and fails with a ChecksumError if the SHA-256 of the stored bytes differs. A browser buffers a stream in
   * memory before sending it, and only reports progress at the start and the end.
   */
  async upload(file: NewFile, options: TransferOptions = {}): Promise<Result<UploadedFile>> {
    const { name = file.content instanceof File ? file.content.name : undefined, visibility, expiresIn } = file
    if (!name) throw new TypeError('the file has no name')
    const upload = await Upload.of(file.content, options.onProgress)
    const type = file.contentType ?? (file.content instanceof Blob && file.content.type || 'application/octet-stream')
    const answer = await this.#transport.json<UploadedFile>({
      method: 'POST', path: `${path}/upload`, query: { name, visibility, expiresIn }, headers: { 'content-type': type },
      body: (attempt) => upload.open(attempt), idempotent: true, transfer: true, options,
    })
    const sha256 = await upload.sha256()
    if (sha256 !== undefined && sha256 !== answer.sha256) throw new ChecksumError(`the service has stored other bytes of ${name} than were sent`)
    return answer
  }

  /** Returns a file's metadata. */
  async get(id: string, options: IdempotentOptions = {}): Promise<Result<FileInfo>> {
    const { file, ...meta } = await this.#transport.json<{ file: FileInfo }>({
      method: 'GET', path: `${path}/get/${segment(id)}`, idempotent: true, options,
    })
    return { ...file, ...meta }
  }

  /**
   * Downloads a file as a stream. It counts as one call: an interrupted download resumes where it broke. The stream fails with a
   * ChecksumError at its end if the checksum differs.
   */
  async download(id: string, options: TransferOptions = {}): Promise<Result<Download>> {
    const transfer = inBrowser() ? await this.#byKey(id, options) : await this.#byLink(id, options)
    return Object.assign(new Download(transfer), transfer.meta)
  }

  /** Downloads by the link of a file, which is not metered and needs no API key. */
  async #byLink(id: string, options: TransferOptions): Promise<Transfer> {
    const { name, size, contentType, sha256, downloadUrl, visibility: _, createdAt, expiresAt, url, ...meta } = await this.get(id, options)
    const call: Call = { method: 'GET', path: new URL(downloadUrl), transfer: true }
    return new Transfer(this.#transport, call, options, { id, name, size, contentType, sha256 }, meta)
  }

  /** A page can't read the link if it is on another origin. The Idempotency-Key makes all requests one call. */
  async #byKey(id: string, options: TransferOptions): Promise<Transfer> {
    const idempotencyKey = options.idempotencyKey ?? newIdempotencyKey()
    const call: Call = { method: 'GET', path: `${path}/get/${segment(id)}`, query: { download: 1 }, idempotent: true, transfer: true }
    const transfer = new Transfer(this.#transport, call, { ...options, idempotencyKey })
    await transfer.begin(id)
    return transfer
  }

  /** Deletes a file with its bytes. */
  delete(id: string, options?: IdempotentOptions): Promise<Result<Deleted>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/delete/${segment(id)}`, idempotent: true, options })
  }

  /** The account's own files. It is not metered. */
  list(filter: FileFilter = {}, options?: CallOptions): List<FileHead> {
    return listOf(this.#transport, `${path}/list`, 'files', filter, options)
  }
}

/** A download in progress. */
export class Download {
  readonly id: string
  readonly name: string
  /** In bytes. */
  readonly size: number
  readonly contentType: string
  /** In hexadecimal. `body` is verified against it at its end. */
  readonly sha256: string
  /** The bytes. Cancel it to stop the download. */
  readonly body: ReadableStream<Uint8Array>

  /** @internal Created by `files.download`. */
  constructor(transfer: Transfer) {
    const { id, name, size, contentType, sha256 } = transfer.source
    this.id = id
    this.name = name
    this.size = size
    this.contentType = contentType
    this.sha256 = sha256
    this.body = streamOf(transfer.bytes())
  }

  /** All the bytes, verified against `sha256`. */
  async bytes(): Promise<Uint8Array> {
    return new Uint8Array(await new Response(this.body).arrayBuffer())
  }

  /** All the bytes with their content type. */
  async blob(): Promise<Blob> {
    return new Blob([await new Response(this.body).arrayBuffer()], { type: this.contentType })
  }
}

/** A response whose first bytes have arrived. */
interface Opened {
  attempt: Attempt
  headers: Headers
  first: Uint8Array | undefined
  rest: AsyncGenerator<Uint8Array, void, undefined>
}

/** A resumable download. */
class Transfer {
  readonly #transport: Transport
  readonly #call: Call
  readonly #options: TransferOptions
  readonly #until: number
  #opened: Opened | undefined
  #source: Source | undefined
  #meta: Meta | undefined

  constructor(transport: Transport, call: Call, options: TransferOptions, source?: Source, meta?: Meta) {
    this.#transport = transport
    this.#call = call
    this.#options = options
    this.#until = Date.now() + (options.timeoutMs ?? Infinity)
    this.#source = source
    this.#meta = meta
  }

  get source(): Source {
    return this.#source!
  }

  get meta(): Meta {
    return this.#meta!
  }

  /** Requests the bytes. */
  async begin(id: string): Promise<void> {
    this.#opened = await this.#open(0)
    const { headers } = this.#opened
    this.#meta = metaOf(headers)
    this.#source = {
      id, name: nameIn(headers.get('content-disposition')) ?? id, size: Number(headers.get('content-length')),
      contentType: headers.get('content-type') ?? 'application/octet-stream', sha256: (headers.get('etag') ?? '').replaceAll('"', ''),
    }
  }

  async *bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    const { name, size, sha256 } = this.source
    const hash = new Sha256()
    for (let done = 0; ;) {
      const opened = this.#opened ?? await this.#open(done)
      this.#opened = undefined
      try {
        for (let chunk = opened.first; chunk; chunk = (await opened.rest.next()).value ?? undefined) {
          hash.update(chunk)
          done += chunk.length
          this.#options.onProgress?.(done, size)
          yield chunk
        }
        if (done > size) throw new ChecksumError(`${name} has ${size} bytes, and ${done} have arrived`)
        if (done === size) break
      } catch (error) {
        // At least one byte arrived since the last break. #open itself gives up if none does.
        if (!(error instanceof ConnectionError)) throw error
      } finally {
        await opened.rest.return()
        opened.attempt.end()
      }
    }
    if (hash.hex() !== sha256) throw new ChecksumError(`the bytes of ${name} do not match the checksum of the service`)
  }

  /** Requests the bytes from an offset, and waits for the first. */
  #open(from: number): Promise<Opened> {
    const { signal, idempotencyKey, timeoutMs } = this.#options
    const call: Call = {
      ...this.#call, headers: { range: from ? `bytes=${from}-` : undefined },
      options: { signal, idempotencyKey, timeoutMs: timeoutMs === undefined ? undefined : Math.max(1, this.#until - Date.now()) },
    }
    return this.#transport.send(call, async (response, attempt) => {
      if ((response.status === 206) !== from > 0) {
        throw new QuireError(`the bytes from ${from} on were asked for, and the answer is ${response.status}`)
      }
      const rest = chunksOf(response, attempt)
      const first = await rest.next()
      if (first.done) throw new ConnectionError('the answer ended before its first byte')
      attempt.keep()
      return { attempt, headers: response.headers, first: first.value, rest }
    })
  }
}

/** The content of an upload, which each attempt reads again. */
class Upload {
  readonly #make: () => ReadableStream<Uint8Array> | undefined
  readonly #blob: Blob | undefined
  readonly #onProgress: Progress | undefined
  #hash: Sha256 | undefined
  #whole = false

  private constructor(make: () => ReadableStream<Uint8Array> | undefined, blob: Blob | undefined, onProgress: Progress | undefined) {
    this.#make = make
    this.#blob = blob
    this.#onProgress = onProgress
  }

  static async of(content: FileContent, onProgress: Progress | undefined): Promise<Upload> {
    if (content instanceof ReadableStream || typeof content === 'function') {
      const [once, many] = typeof content === 'function' ? [undefined, content] : [content, undefined]
      if (inBrowser()) return Upload.of(await new Response(once ?? many?.()).blob(), onProgress)
      let unread = once
      return new Upload(many ?? (() => {
        const stream = unread
        unread = undefined
        return stream
      }), undefined, onProgress)
    }
    const blob = content instanceof Blob ? content : new Blob([content as BlobPart])
    return new Upload(() => blob.stream(), blob, onProgress)
  }

  /** The body of an attempt. If the content can't be read again, throws the failure of the previous attempt. */
  open(attempt: Attempt): { body: Sendable, length?: number | undefined } {
    this.#hash = new Sha256()
    this.#whole = false
    if (this.#blob && inBrowser()) {
      this.#onProgress?.(0, this.#blob.size)
      return { body: this.#blob, length: this.#blob.size }
    }
    const stream = this.#make()
    if (!stream) throw attempt.last
    return { body: streamOf(this.#counted(stream, attempt, this.#hash)) }
  }

  async *#counted(stream: ReadableStream<Uint8Array>, attempt: Attempt, hash: Sha256): AsyncGenerator<Uint8Array, void, undefined> {
    const reader = stream.getReader()
    let done = 0
    try {
      for (;;) {
        const { value, done: ended } = await reader.read()
        if (ended) break
        hash.update(value)
        done += value.length
        attempt.moved()
        this.#onProgress?.(done, this.#blob?.size)
        yield value
      }
      this.#whole = this.#hash === hash
    } catch (error) {
      attempt.fail(error) // of the caller's content: a retry does not help
      throw error
    } finally {
      reader.cancel().catch(() => {}) // it has ended, or its failure was reported
    }
  }

  /** The SHA-256 of the sent bytes; undefined if the service answered before reading all of them. */
  async sha256(): Promise<string | undefined> {
    if (this.#blob && inBrowser()) {
      const hash = new Sha256()
      const reader = this.#blob.stream().getReader()
      for (let read = await reader.read(); !read.done; read = await reader.read()) hash.update(read.value)
      this.#onProgress?.(this.#blob.size, this.#blob.size)
      return hash.hex()
    }
    return this.#whole ? this.#hash?.hex() : undefined
  }
}

/** Browsers neither stream uploads over HTTP/1.1 nor let a page read links on other origins. Their user agents start like this. */
function inBrowser(): boolean {
  return globalThis.navigator?.userAgent?.startsWith('Mozilla/') ?? false
}

function streamOf(bytes: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await bytes.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    async cancel() {
      await bytes.return()
    },
  }, { highWaterMark: 0 })
}

/** The file name of a Content-Disposition header, by RFC 6266. */
function nameIn(disposition: string | null): string | undefined {
  const extended = /filename\*=utf-8''([^;]+)/i.exec(disposition ?? '')?.[1]
  if (extended !== undefined) return decodeURIComponent(extended)
  return /filename="((?:[^"\\]|\\.)*)"/i.exec(disposition ?? '')?.[1]?.replace(/\\(.)/g, '$1')
}
