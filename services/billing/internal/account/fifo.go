package account

import "slices"

// fifo is a queue. It frees memory as it shrinks.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }
func (q *fifo[T]) first() T { return q.items[q.head] }

// waiting returns the items, the first one first.
func (q *fifo[T]) waiting() []T { return q.items[q.head:] }

func (q *fifo[T]) push(item T) {
	q.items = append(q.items, item)
}

func (q *fifo[T]) pop() T {
	var none T
	item := q.items[q.head]
	q.items[q.head] = none
	q.head++
	if q.head >= 64 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
		if cap(q.items) > 1024 && n < cap(q.items)/8 {
			q.items = slices.Clone(q.items)
		}
	}
	return item
}
