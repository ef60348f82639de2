package webhook

import (
	"cmp"
	"container/heap"
	"strings"
	"time"
)

// A box has deliveries by their files, and in a queue for each endpoint: the one that is due first is in front.
type box struct {
	all    map[string]*Delivery
	queues map[string]*queue
}

func newBox() box { return box{map[string]*Delivery{}, map[string]*queue{}} }

// of returns the queue of an endpoint.
func (b *box) of(endpoint string) *queue {
	q := b.queues[endpoint]
	if q == nil {
		return &queue{}
	}
	return q
}

func (b *box) put(d *Delivery) {
	q := b.queues[d.Endpoint]
	if q == nil {
		q = &queue{before: sooner, index: func(d *Delivery) *int { return &d.turn }}
		b.queues[d.Endpoint] = q
	}
	b.all[d.file()] = d
	heap.Push(q, d)
}

func (b *box) remove(d *Delivery) {
	q := b.queues[d.Endpoint]
	delete(b.all, d.file())
	heap.Remove(q, d.turn)
	if q.Len() == 0 {
		delete(b.queues, d.Endpoint)
	}
}

// wait puts a delivery into the queues. The lock is held, also for the next two.
func (s *Sender) wait(d *Delivery) {
	d.ends = d.Created.Add(giveUp)
	s.waiting.put(d)
	heap.Push(&s.ends, d)
}

// delay sets when a delivery is tried next.
func (s *Sender) delay(d *Delivery, next time.Time) {
	d.next = next
	heap.Fix(s.waiting.of(d.Endpoint), d.turn)
}

// forget removes a delivery from the queues.
func (s *Sender) forget(d *Delivery) {
	s.waiting.remove(d)
	heap.Remove(&s.ends, d.place)
}

// newEnds returns a queue of deliveries in the order in which they are given up.
func newEnds() queue {
	return queue{before: func(a, b *Delivery) bool { return a.ends.Before(b.ends) }, index: func(d *Delivery) *int { return &d.place }}
}

// sooner orders deliveries by their next try, and those that were not tried by their age.
func sooner(a, b *Delivery) bool {
	return cmp.Or(a.next.Compare(b.next), a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) < 0
}

// A queue is a [heap.Interface], in which each delivery knows its place.
type queue struct {
	items  []*Delivery
	before func(a, b *Delivery) bool
	index  func(*Delivery) *int
}

func (q *queue) Len() int           { return len(q.items) }
func (q *queue) Less(i, j int) bool { return q.before(q.items[i], q.items[j]) }

func (q *queue) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	*q.index(q.items[i]), *q.index(q.items[j]) = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	d := x.(*Delivery)
	*q.index(d) = len(q.items)
	q.items = append(q.items, d)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	n := len(q.items) - 1
	d := q.items[n]
	q.items[n] = nil
	q.items = q.items[:n]
	return d
}
