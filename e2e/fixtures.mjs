// Content for the tests: a program, its versions, Markdown, a table, a picture and a PDF.
import { deflateSync } from 'node:zlib'

export const goCode = `// Package lru is a cache that forgets what was not used for longest.
package lru

import (
	"container/list"
	"sync"
)

// Cache holds up to a fixed number of values. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	limit   int
	order   *list.List // of *entry, the latest used first
	entries map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New makes a cache for limit values. A limit below 1 is 1.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{
		limit:   max(limit, 1),
		order:   list.New(),
		entries: make(map[K]*list.Element),
	}
}

// Get returns the value of key, and whether there is one.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}
`

/** goCode with a method more and a few lines changed. */
export const goCodeLater = goCode
  .replace('// New makes a cache for limit values. A limit below 1 is 1.', '// New makes a cache for limit values, at least one.')
  .replace('return value, false', 'return value, false // and value is the zero value')
  + `
// Put sets the value of key. It may push out the value that was not used for longest.
func (c *Cache[K, V]) Put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		element.Value.(*entry[K, V]).value = value
		c.order.MoveToFront(element)
		return
	}
	c.entries[key] = c.order.PushFront(&entry[K, V]{key, value})
	if c.order.Len() > c.limit {
		last := c.order.Back()
		delete(c.entries, c.order.Remove(last).(*entry[K, V]).key)
	}
}
`

export const markdown = `# Release notes

Everything that changed since **1.4**, with *thanks* to all who reported [faults](https://example.com/faults).

## Added

- A cache that forgets what was not used for longest
- \`quire explain\`, which shows how a request was charged
  1. of its own counter
  2. or of credits

## Measured

| Cache | Hits | Time of a read |
|:------|-----:|---------------:|
| none  |    0 |         412 µs |
| LRU   | 91 % |          38 µs |

> It is faster, and it is smaller.

\`\`\`go
func main() {
	fmt.Println("hello") // a line of code
}
\`\`\`

- [x] measured
- [ ] written about
`

export const csv = `city,country,population,founded
"Aachen",Germany,"249,070",1st century
"São Paulo",Brazil,"11,451,245",1554
"Xi'an",China,"12,952,907",1046 BC
"a ""quoted"" name",Nowhere,0,never
`

/** A picture of that many pixels, in PNG. */
export function png(width, height) {
  const row = Buffer.alloc(1 + 3 * width)
  const rows = Buffer.concat(Array.from({ length: height }, (_, y) => {
    for (let x = 0; x < width; x++) row.set([255 * x / width, 90 + 120 * y / height, 160], 1 + 3 * x)
    return Buffer.from(row)
  }))
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 2, 0, 0, 0], 8) // 8 bits a colour, RGB
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header), chunk('IDAT', deflateSync(rows)), chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type, data) {
  const out = Buffer.alloc(12 + data.length)
  out.writeUInt32BE(data.length, 0)
  out.write(type, 4, 'latin1')
  out.set(data, 8)
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length)
  return out
}

// CRC-32 of PNG (ISO 3309). zlib.crc32 needs node 22.
function crc32(bytes) {
  let crc = ~0
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc >>> 1 ^ (crc & 1 ? 0xedb88320 : 0)
  }
  return ~crc >>> 0
}

/** A PDF of one page. */
export const pdf = pdfThat('')

/** A PDF that opens a dialog when it is shown. */
export const hostilePDF = pdfThat('/OpenAction<</S/JavaScript/JS(app.alert\\(1\\))>>')

function pdfThat(opens) {
  return Buffer.from(`%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R${opens}>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj
4 0 obj<</Length 44>>stream
BT /F 24 Tf 40 100 Td (A page of a PDF) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
`)
}
