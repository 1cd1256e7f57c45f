package demo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/logical"
)

// The backlog: stations of three kinds report over three days.
const (
	backlogDays     = 3
	backlogInterval = 30 * time.Second
	stations        = 20
)

// backlog generates points in the order of time, as stations that report regularly would send them.
// One in a thousand is sent twice, as clients do that did not hear the answer.
type backlog struct {
	random  *rand.Rand
	at      time.Time
	end     time.Time
	station int
	again   *lineprotocol.Point
	cities  []string
}

func newBacklog(now time.Time, seed uint64) *backlog {
	end := now.Truncate(time.Second)
	return &backlog{
		random: rand.New(rand.NewPCG(seed, 0)), at: end.Add(-backlogDays * 24 * time.Hour), end: end,
		cities: []string{"Bern", "Zürich", "Genève", "Lugano", "St. Gallen"},
	}
}

// total returns how many points there are going to be, about.
func (b *backlog) total() int {
	return int(b.end.Sub(b.at)/backlogInterval) * stations * kinds
}

// kinds is how many points each station sends at a time.
const kinds = 3

// next appends the points that one station sends at one time, or reports false at the end.
func (b *backlog) next(points []lineprotocol.Point) ([]lineprotocol.Point, bool) {
	if !b.at.Before(b.end) {
		return points, false
	}
	ns := b.at.Add(time.Duration(b.random.IntN(1e9))).UnixNano()
	points = append(points, b.weather(ns), b.power(ns), b.machine(ns))
	if b.again != nil {
		points = append(points, *b.again)
		b.again = nil
	} else if b.random.IntN(1000) == 0 {
		b.again = &points[len(points)-1]
		again := *b.again
		b.again = &again
	}
	if b.station++; b.station == stations {
		b.station, b.at = 0, b.at.Add(backlogInterval)
	}
	return points, true
}

func (b *backlog) tags() []lineprotocol.Tag {
	return []lineprotocol.Tag{
		{Key: "city", Value: b.cities[b.station%len(b.cities)]},
		{Key: "station", Value: fmt.Sprintf("s%02d", b.station)},
	}
}

// daily is a curve that peaks in the afternoon.
func (b *backlog) daily() float64 {
	hour := b.at.Sub(b.at.Truncate(24 * time.Hour)).Hours()
	return math.Sin((hour - 9) / 24 * 2 * math.Pi)
}

func (b *backlog) weather(ns int64) lineprotocol.Point {
	return lineprotocol.Point{Measurement: "weather", Tags: b.tags(), Time: ns, Fields: []lineprotocol.Field{
		{Key: "temperature", Value: logical.Float64(round(12 + 8*b.daily() + b.random.NormFloat64()))},
		{Key: "humidity", Value: logical.Int64(int64(60 - 20*b.daily() + 5*b.random.NormFloat64()))},
		{Key: "raining", Value: logical.Bool(b.random.IntN(10) == 0)},
	}}
}

func (b *backlog) power(ns int64) lineprotocol.Point {
	energy := uint64(b.at.Unix())*1000 + uint64(b.station)
	return lineprotocol.Point{Measurement: "power", Tags: b.tags(), Time: ns, Fields: []lineprotocol.Field{
		{Key: "watts", Value: logical.Float64(round(400 + 300*b.daily() + 20*b.random.NormFloat64()))},
		{Key: "energy", Value: logical.Uint64(energy)},
	}}
}

func (b *backlog) machine(ns int64) lineprotocol.Point {
	states := [...]string{"idle", "running", "setup, waiting for \"A\"", "Störung"}
	return lineprotocol.Point{Measurement: "machine", Tags: b.tags(), Time: ns, Fields: []lineprotocol.Field{
		{Key: "state", Value: logical.Text(states[b.random.IntN(len(states))])},
		{Key: "pieces", Value: logical.Int64(int64(b.random.IntN(100)))},
	}}
}

func round(v float64) float64 { return math.Round(v*100) / 100 }
