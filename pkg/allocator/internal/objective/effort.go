package objective

// sharesPerDevice is for how many requests for shares it can be asked whether a device has enough, in the
// time that it takes to look at the device.
const sharesPerDevice = 16

// Effort is how much it takes to assess a state, for each device: 1 unless many shares are likely to be
// asked for.
func (o *Objective) Effort() int {
	o.once.Do(o.start)
	return o.effort
}

// assessing works out Effort.
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
