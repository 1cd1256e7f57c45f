package logical

// as finds a capability of a dialect, a target or a transaction: its own, or that of what it wraps.
func as[T any](of any) (T, bool) {
	for {
		if c, ok := of.(T); ok {
			return c, true
		}
		wrapper, ok := of.(interface{ Unwrap() any })
		if !ok {
			var none T
			return none, false
		}
		of = wrapper.Unwrap()
	}
}
