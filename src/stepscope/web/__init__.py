"""The local web page of a store: routes only; every figure comes from `report`."""
