package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

var env testenv.Env

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// seriesCount is how many series the points are of.
const seriesCount = 100

// reading is a measurement of eight columns: time, series, three tags, three fields.
var reading = &logical.Relation{Name: "reading", Points: true, Columns: []logical.Column{
	{Name: "time", Kind: logical.KindTime, Key: true, Role: logical.RoleTime},
	{Name: "series", Kind: logical.KindUUID, Key: true, Role: logical.RoleSeries},
	{Name: "host", Kind: logical.KindText, Role: logical.RoleTag},
	{Name: "rack", Kind: logical.KindText, Role: logical.RoleTag},
	{Name: "region", Kind: logical.KindText, Role: logical.RoleTag},
	{Name: "usage", Kind: logical.KindFloat64, Role: logical.RoleField},
	{Name: "count", Kind: logical.KindInt64, Role: logical.RoleField},
	{Name: "up", Kind: logical.KindBool, Role: logical.RoleField},
}}

// point is one row, as both the loop and the hand-written loaders are given it.
type point struct {
	time   int64
	series *[16]byte
	tags   [3]string
	usage  float64
	count  int64
	up     bool
}

// points makes n points in the order of time, with values that really differ.
func points(n int) []point {
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]point, n)
	series := make([]point, seriesCount)
	for i := range series {
		sum := sha256.Sum256(fmt.Append(nil, i))
		id := [16]byte(sum[:16])
		series[i] = point{series: &id, tags: [3]string{fmt.Sprintf("host-%03d", i), fmt.Sprintf("rack-%d", i%10), "eu-central"}}
	}
	for i := range list {
		p := series[i%seriesCount]
		p.time = 1_700_000_000_000_000_000 + int64(i/seriesCount)*1_000_000_000 + int64(i%1000)
		p.usage, p.count, p.up = random.Float64()*100, random.Int64N(1e6), random.IntN(2) == 0
		list[i] = p
	}
	return list
}

// mutations turns points into what a dialect hands over, as transactions of so many points.
func mutations(list []point, perTx int) [][]logical.Mutation {
	var txs [][]logical.Mutation
	for len(list) > 0 {
		n := min(perTx, len(list))
		tx := make([]logical.Mutation, n)
		slab := make([]logical.Value, 0, n*len(reading.Columns))
		for i, p := range list[:n] {
			from := len(slab)
			slab = append(slab, logical.UnixNano(p.time), logical.UUID(p.series),
				logical.Text(p.tags[0]), logical.Text(p.tags[1]), logical.Text(p.tags[2]),
				logical.Float64(p.usage), logical.Int64(p.count), logical.Bool(p.up))
			tx[i] = logical.Mutation{
				Op: logical.OpPatch, Relation: reading, Values: slab[from:len(slab):len(slab)],
				Route: 1 + uint64(p.series[0]) | uint64(p.series[1])<<8,
			}
		}
		txs = append(txs, tx)
		list = list[n:]
	}
	return txs
}

// replay is a dialect that hands over transactions from memory, as fast as the loop takes them.
type replay struct{ txs [][]logical.Mutation }

type position struct {
	N int `json:"n"`
}

func (p position) Compare(other logical.Stamp) int { return cmp.Compare(p.N, other.(position).N) }

func (r *replay) ZeroStamp() logical.Stamp { return position{} }

func (r *replay) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var p position
	err := json.Unmarshal(stored, &p)
	return p, err
}

func (r *replay) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for n := from.(position).N; n < len(r.txs); n++ {
		if err := out.Send(ctx, logical.Message{Body: n, Size: 64}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (r *replay) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			err = events.OnRollback(ctx)
		} else {
			n := msg.Body.(int)
			if err = events.OnBegin(ctx, position{n + 1}); err == nil {
				if err = events.OnData(ctx, r.txs[n]); err == nil {
					err = events.OnCommit(ctx)
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// run sends transactions through a loop, and returns how long it took until all had landed.
func run(b *testing.B, target logical.Target, txs [][]logical.Mutation, config logical.Config) time.Duration {
	b.Helper()
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "bench", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	loop, err := factory.Get(b.Context(), loops.Spec{Name: b.Name(), Dialect: &replay{txs}, Target: target, Config: config})
	if err != nil {
		b.Fatal(err)
	}
	for {
		changed := loop.Changed()
		st := loop.Status()
		if p, ok := st.Point.(position); ok && p.N == len(txs) {
			break
		}
		if st.Err != nil {
			b.Fatal(st.Err)
		}
		<-changed
	}
	took := time.Since(begun)
	factory.Close(b.Context())
	return took
}
