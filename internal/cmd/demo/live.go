package demo

import (
	"context"
	"os"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/logical"
)

// measure returns what this machine is doing now. What it cannot tell is left out.
func measure(ctx context.Context, now time.Time, dir string) []lineprotocol.Point {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	var points []lineprotocol.Point
	add := func(name string, fields ...lineprotocol.Field) {
		points = append(points, lineprotocol.Point{
			Measurement: "live_" + name, Time: now.UnixNano(), Fields: fields,
			Tags: []lineprotocol.Tag{{Key: "host", Value: host}},
		})
	}
	if percent, err := cpu.PercentWithContext(ctx, 0, false); err == nil && len(percent) > 0 {
		add("cpu", lineprotocol.Field{Key: "busy_percent", Value: logical.Float64(round(percent[0]))})
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		add("memory", lineprotocol.Field{Key: "used_bytes", Value: logical.Uint64(m.Used)},
			lineprotocol.Field{Key: "used_percent", Value: logical.Float64(round(m.UsedPercent))})
	}
	if d, err := disk.UsageWithContext(ctx, dir); err == nil {
		add("disk", lineprotocol.Field{Key: "free_bytes", Value: logical.Uint64(d.Free)})
	}
	if n, err := net.IOCountersWithContext(ctx, false); err == nil && len(n) > 0 {
		add("network", lineprotocol.Field{Key: "received_bytes", Value: logical.Uint64(n[0].BytesRecv)},
			lineprotocol.Field{Key: "sent_bytes", Value: logical.Uint64(n[0].BytesSent)})
	}
	return points
}
