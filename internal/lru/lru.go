// Package lru has a cache with a bound in bytes.
package lru

import (
	"container/list"
	"sync"
)

// Cache holds data by key. When it is full, it drops the least recently used entries. It is safe for
// concurrent use.
type Cache struct {
	max int64

	mu    sync.Mutex
	size  int64
	items map[string]*list.Element
	used  list.List // of *item, the last used first
}

type item struct {
	key  string
	data []byte
}

// itemBytes is about the memory that an entry takes in addition to its key and its data.
const itemBytes = 256

func (i *item) size() int64 { return int64(len(i.key) + len(i.data) + itemBytes) }

// New returns an empty cache that uses at most about maxBytes of memory.
func New(maxBytes int64) *Cache {
	return &Cache{max: maxBytes, items: map[string]*list.Element{}}
}

// Get returns the data under a key, and whether there is any. Nobody may change it.
func (c *Cache) Get(key string) (data []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.items[key]
	if !ok {
		return nil, false
	}
	c.used.MoveToFront(el)
	return el.Value.(*item).data, true
}

// Put replaces the data under a key, and reports whether it has room. If it is too large by itself, there
// is nothing under the key afterwards.
func (c *Cache) Put(key string, data []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.items[key]; ok {
		c.remove(el)
	}
	added := &item{key, data}
	if added.size() > c.max {
		return false
	}
	for c.size+added.size() > c.max {
		c.remove(c.used.Back())
	}
	c.items[key] = c.used.PushFront(added)
	c.size += added.size()
	return true
}

func (c *Cache) remove(el *list.Element) {
	old := c.used.Remove(el).(*item)
	delete(c.items, old.key)
	c.size -= old.size()
}
