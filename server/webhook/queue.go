package webhook

import (
	"cmp"
	"container/heap"
	"strings"
)

// A box has deliveries by their files, and in a queue for each endpoint: the one that is due first is in front.
type box struct {
	all    map[string]*Delivery
	queues map[string]*queue
}

func newBox() box { return box{map[string]*Delivery{}, map[string]*queue{}} }

// of returns the queue of an endpoint.
func (b *box) of(endpoint string) queue {
	if q := b.queues[endpoint]; q != nil {
		return *q
	}
	return nil
}

func (b *box) put(d *Delivery) {
	q := b.queues[d.Endpoint]
	if q == nil {
		q = new(queue)
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

// A queue is a [heap.Interface], in which each delivery knows its place. The order is that of the next try, and of the age of
// those that were not tried.
type queue []*Delivery

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(a.next.Compare(b.next), a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) < 0
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].turn, q[j].turn = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	d := x.(*Delivery)
	d.turn = len(*q)
	*q = append(*q, d)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	n := len(*q) - 1
	d := (*q)[n]
	(*q)[n] = nil
	*q = (*q)[:n]
	return d
}
