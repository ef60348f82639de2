package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aycoder/aycoder/journal"
)

// BenchmarkAppend compares durable appends of one record with inserts of the same bytes into a table that has only a number
// for each row, on the same connections. Both are measured in turns, as the machine does other things meanwhile. The
// ratio is that of the rates.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("%dconnections", n), func(b *testing.B) {
			dir := tempDir(b)
			s, err := Open(b.Context(), address(b)+" pool_max_conns="+strconv.Itoa(n), WithSchema(schemaOf(dir)))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			exec(b, dir, "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data bytea NOT NULL)")
			record := bytes.Repeat([]byte(`{"t":"fact"},`), 1000/13)
			journals := make([]journal.Journal, n)
			for i := range journals {
				if journals[i], err = s.Create(b.Context(), strconv.Itoa(i)); err != nil {
					b.Fatal(err)
				}
				defer journals[i].Close()
			}
			const perRound = 100
			round := func(f func(ctx context.Context, i int) error) time.Duration {
				begin := time.Now()
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						for range perRound {
							if err := f(b.Context(), i); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				return time.Since(begin)
			}
			ours := func(ctx context.Context, i int) error { return journals[i].Append(ctx, true, record) }
			bare := func(ctx context.Context, _ int) error {
				_, err := s.pool.Exec(ctx, "INSERT INTO bare (data) VALUES ($1)", record)
				return err
			}
			round(ours)
			round(bare)
			var a, c time.Duration
			for b.Loop() {
				a += round(ours)
				c += round(bare)
			}
			rate := func(d time.Duration) float64 { return float64(b.N*n*perRound) / d.Seconds() }
			b.ReportMetric(rate(a), "appends/s")
			b.ReportMetric(rate(c), "inserts/s")
			b.ReportMetric(rate(a)/rate(c), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
