package objective

// sharesPerDevice is the number of requests for shares that can be compared with a device in the time that it
// takes to look at the device.
const sharesPerDevice = 16

// Effort returns the cost of assessing a state, per device: 1 unless the demand contains many requests for shares.
func (o *Objective) Effort() int {
	o.once.Do(o.start)
	return o.effort
}

// assessing calculates Effort.
func (o *Objective) assessing() int {
	if o.Strategy != LeastFragmentation {
		return 1
	}
	shares := 0
	for i := range o.demand.Shapes {
		for _, r := range o.demand.Shapes[i].Requests {
			if r.Amount > 0 {
				shares++
			}
		}
	}
	return 1 + shares/sharesPerDevice
}
